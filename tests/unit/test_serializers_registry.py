"""Registry: serializers by name, by dotted path, or as they are."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from memdb.errors import ConfigError
from memdb.serializers import Codec, Serializer, _registry, get_serializer, register, shape_of
from tests.support import own_serializer


@dataclass
class City:
    name: str
    id: int = 0


@pytest.fixture(autouse=True)
def clean_registry() -> Iterator[None]:
    """Forget what a test registers."""
    before = dict(_registry._factories)
    yield
    _registry._factories.clear()
    _registry._factories.update(before)


@pytest.mark.parametrize("name", ["binary", "json", "msgpack", "pickle"])
def test_the_names(name: str) -> None:
    """Each of the four is found by its name and keeps the protocols."""
    serializer = get_serializer(name)

    assert isinstance(serializer, Serializer)
    assert isinstance(serializer.codec(shape_of(City)), Codec)
    assert serializer.name == name


def test_a_serializer_as_it_is() -> None:
    """A serializer itself may stand for its name."""
    serializer = own_serializer.make()

    assert get_serializer(serializer) is serializer


def test_a_dotted_path() -> None:
    """A user's own serializer is found by the path of its factory and can be used."""
    codec = get_serializer(own_serializer.PATH).codec(shape_of(City))

    assert codec.decode(codec.encode(City("Paris")), 5) == City("Paris", 5)


def test_a_registered_name() -> None:
    """A registered factory is found by its short name; registering it twice does no harm."""

    class Named(own_serializer.ReprSerializer):
        name = "repr"

    register("repr", Named)
    register("repr", Named)

    assert type(get_serializer("repr")) is Named
    with pytest.raises(ConfigError, match="registered already"):
        register("repr", own_serializer.make)


@pytest.mark.parametrize("name", ["", "a:b"])
def test_names_that_cannot_be_registered(name: str) -> None:
    """A short name is not empty and has no colon."""
    with pytest.raises(ConfigError, match="short name"):
        register(name, own_serializer.make)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("msgpak", "no serializer 'msgpak'. Did you mean 'msgpack'?"),
        ("JSON", "Did you mean 'json'?"),
        ("xyz", "Use one of .*binary.*package.module:factory"),
        ("no_such_module_:make", "can't be imported"),
        ("tests.support.own_serializer:missing", "can't be imported"),
        (":make", "can't be imported"),
        ("tests.support.own_serializer:NOT_CALLABLE", "is no factory"),
        ("tests.support.own_serializer:make_nothing", "is no serializer"),
        ("tests.support.own_serializer:make_misnamed", "calls itself 'other'"),
        (5, "5 is no serializer"),
        (own_serializer.ReprSerializer, "is no serializer"),
    ],
)
def test_what_is_no_serializer(spec: Any, message: str) -> None:
    """A spec that leads to no serializer is an error that says what would."""
    with pytest.raises(ConfigError, match=message):
        get_serializer(spec)
