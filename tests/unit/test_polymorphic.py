"""Collections of several classes, as examples."""

from __future__ import annotations

import abc
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Union

import msgspec
import pytest

import memdb
from memdb import F
from tests.support.exact import assert_exact


@dataclass
class Animal:
    name: str
    id: int = 0


@dataclass
class Cat(Animal):
    lives: int = 9


@dataclass
class Dog(Animal):
    tricks: list[str] = field(default_factory=list)


class Robot(msgspec.Struct):
    model: str
    id: int = 0


class Stone(NamedTuple):
    weight: float


@dataclass
class Shape(abc.ABC):
    id: int = 0

    @abc.abstractmethod
    def area(self) -> float: ...


@dataclass
class Square(Shape):
    side: float = 1.0

    def area(self) -> float:
        return self.side**2


SERIALIZERS = ["binary", "msgpack", "json", "pickle"]


@pytest.mark.parametrize("serializer", SERIALIZERS)
def test_records_come_back_as_what_they_were(tmp_path: Path, serializer: str) -> None:
    """Each of its own class, in this process and after reopening, whatever the order."""
    records = [Cat("Tom"), Robot("R2"), Stone(1.5), Dog("Rex", tricks=["sit"]), Cat("Kit", lives=3)]
    with memdb.open(tmp_path / "a.memdb", serializer=serializer) as db:
        pets = db.collection(Cat | Dog | Robot | Stone, name="pets")
        identities = [pets.insert(record) for record in records[:2]] + pets.insert_many(records[2:])
        expected = [
            Cat("Tom", 1),
            Robot("R2", 2),
            Stone(1.5),
            Dog("Rex", 4, ["sit"]),
            Cat("Kit", 5, 3),
        ]
        assert_exact(list(pets), expected)
    with memdb.open(tmp_path / "a.memdb", serializer=serializer) as db:
        pets = db.collection(Union[Stone, Robot, Dog, Cat], name="pets")  # noqa: UP007
        assert_exact([pets[identity] for identity in identities], expected)
        assert [] == db.check()


def test_what_is_read_is_a_copy_of_its_own_class(db: memdb.Database) -> None:
    """Changing it changes nothing."""
    pets = db.collection(Cat | Dog, name="pets")
    rex = pets.insert(Dog("Rex"))

    pets[rex].tricks.append("bite")

    assert Dog("Rex", rex) == pets[rex]


def test_a_base_class_takes_its_subclasses(db: memdb.Database) -> None:
    """And itself, unless it is abstract."""
    animals = db.collection(Animal, subclasses=True)
    shapes = db.collection(Shape, subclasses=True)

    animals.insert_many([Animal("?"), Cat("Tom"), Dog("Rex")])
    shapes.insert(Square())

    assert [Animal, Cat, Dog] == [type(animal) for animal in animals]
    assert 1.0 == shapes[1].area()
    with pytest.raises(memdb.RecordTypeError, match="holds records of Animal or Cat or Dog"):
        animals.insert(Robot("R2"))  # type: ignore[arg-type]


def test_without_a_word_a_subclass_is_refused(db: memdb.Database) -> None:
    """The message says how to allow it."""
    animals = db.collection(Animal)

    with pytest.raises(memdb.RecordTypeError, match=r"tags=\{'Cat': Cat\}"):
        animals.insert(Cat("Tom"))


def test_conditions_may_name_the_fields_of_any_class(db: memdb.Database) -> None:
    """A record without the field does not match, and is not unequal to nothing."""
    pets = db.collection(Cat | Dog, name="pets")
    pets.insert_many([Cat("Tom"), Dog("Rex", tricks=["sit"]), Cat("Kit", lives=1)])

    assert ["Tom"] == [each.name for each in pets.find_all(F.lives > 3)]
    assert ["Rex"] == [each.name for each in pets.find_all(F.tricks.contains("sit"))]
    assert ["Kit"] == [each.name for each in pets.find_all(name="Kit")]
    assert 1 == pets.count(lambda pet: isinstance(pet, Dog))
    with pytest.raises(memdb.QueryError, match=r"Cat \| Dog has no field 'live'\..* 'lives'"):
        pets.find(F.live == 2)


def test_a_record_may_become_one_of_another_class(db: memdb.Database) -> None:
    """Its identity stays, its history tells."""
    pets = db.collection(Cat | Dog, name="pets")
    tom = pets.insert(Cat("Tom"))

    assert pets.update(tom, Dog("Tom"))
    assert pets.update(tom, tricks=["meow"])
    assert [Cat("Tom", 1), Dog("Tom", 1), Dog("Tom", 1, ["meow"])] == [
        each.record for each in pets.history(tom)
    ]
    with pytest.raises(memdb.RecordTypeError, match="Dog has no field 'lives'"):
        pets.update(tom, lives=3)


def test_in_a_transaction_each_record_keeps_its_class(db: memdb.Database) -> None:
    """Equal bytes of two classes are two states."""

    @dataclass
    class Left:
        x: int

    @dataclass
    class Right:
        x: int

    sides = db.collection(Left | Right, name="sides")
    with db.transaction():
        one = sides.insert(Left(1))
        assert sides.update(one, Right(1))
        assert Right(1) == sides[one]
        two = sides.insert(Left(2))
    with db.transaction():
        sides.update(two, Right(2))

    assert [Right(1), Right(2)] == list(sides)
    assert sides.update(one, Left(1))
    assert Left(1) == sides[one]


def test_tags_are_what_the_file_knows(tmp_path: Path) -> None:
    """A class may be renamed when it has a declared tag, or an alias."""

    @dataclass
    class Feline:
        name: str
        id: int = 0
        lives: int = 9

    path = tmp_path / "a.memdb"
    with memdb.open(path) as db:
        pets = db.collection(Animal, name="pets", tags={"cat": Cat, "dog": Dog})
        pets.insert_many([Cat("Tom"), Dog("Rex")])
    with memdb.open(path) as db:
        pets = db.collection(Animal, name="pets", tags={"cat": Feline})
        assert Feline("Tom", 1) == pets[1]
        with pytest.raises(
            memdb.DecodeError, match=r"pets 2: a record is of the class 'dog'.*aliases="
        ):
            pets[2]
    with memdb.open(path) as db:
        pets = db.collection(Feline | Dog, name="pets", aliases={"cat": Feline, "dog": Dog})
        assert [Feline("Tom", 1), Dog("Rex", 2)] == list(pets)


def test_a_collection_of_one_class_may_take_another_later(tmp_path: Path) -> None:
    """A subclass added, and taken away again."""
    path = tmp_path / "a.memdb"
    with memdb.open(path) as db:
        db.collection(Cat, name="pets").insert(Cat("Tom"))
    with memdb.open(path) as db:
        pets = db.collection(Cat | Dog, name="pets")
        pets.insert(Dog("Rex"))
        assert [Cat("Tom", 1), Dog("Rex", 2)] == list(pets)
        pets.update(1, lives=1)
    with memdb.open(path) as db:
        pets = db.collection(Cat, name="pets")
        assert Cat("Tom", 1, 1) == pets[1]
        with pytest.raises(memdb.DecodeError, match="pets 2: a record is of the class 'Dog'"):
            pets[2]
        pets.delete(2)
        assert [Cat("Tom", 1, 1)] == list(pets)


def test_a_tag_may_be_declared_later(tmp_path: Path) -> None:
    """Records that were written under the class's own name stay its records."""
    path = tmp_path / "a.memdb"
    with memdb.open(path) as db:
        db.collection(Cat | Dog, name="pets").insert_many([Cat("Tom"), Dog("Rex")])
    with memdb.open(path) as db:
        pets = db.collection(Animal, name="pets", tags={"feline": Cat, "Dog": Dog})
        assert [Cat("Tom", 1), Dog("Rex", 2)] == list(pets)


def test_by_its_name_each_dict_says_its_class(tmp_path: Path) -> None:
    """The tag is under "__class__"."""
    with memdb.open(tmp_path / "a.memdb") as db:
        db.collection(Cat | Dog, name="pets").insert_many([Cat("Tom"), Dog("Rex")])
    with memdb.open(tmp_path / "a.memdb") as db:
        assert [
            {"__class__": "Cat", "name": "Tom", "lives": 9, "id": 1},
            {"__class__": "Dog", "name": "Rex", "tricks": [], "id": 2},
        ] == list(db.collection("pets"))


def test_classes_of_one_commit_are_registered_at_once(tmp_path: Path) -> None:
    """One catalogue in front of the commit, however many classes and collections are new in it."""
    with memdb.open(tmp_path / "a.memdb") as db:
        pets = db.collection(Cat | Dog | Robot | Stone, name="pets")
        with db.transaction():
            for record in (Cat("Tom"), Robot("R2"), Stone(1.5), Dog("Rex")):
                pets.insert(record)
            db.collection("notes").insert({})
        db.collection(Cat | Dog, name="others").insert_many([Cat("Tom"), Dog("Rex")])
    blocks = (tmp_path / "a.memdb").read_bytes().count(b'{"collections":')

    assert 2 == blocks


def test_a_subclass_from_after_the_asking_is_refused(db: memdb.Database) -> None:
    """The message says when it must be defined."""
    animals = db.collection(Animal, subclasses=True)
    # Not a name that the run before it for another database may have left alive.
    late: Any = dataclass(type(f"Late{len(Animal.__subclasses__())}", (Animal,), {}))

    with pytest.raises(memdb.RecordTypeError, match="define it before the collection is asked for"):
        animals.insert(late("?"))


def test_several_classes_may_have_one_natural_key(db: memdb.Database) -> None:
    """A name is given once over all of them."""
    pets = db.collection(Cat | Dog, name="pets", key="name")
    pets.insert(Cat("Tom", 7))

    with pytest.raises(memdb.DuplicateIdentityError):
        pets.insert(Dog("Tom"))
    assert Cat("Tom", 7) == pets["Tom"]
    assert pets.update("Tom", Dog("Tom"))
    assert Dog("Tom") == pets["Tom"]


@pytest.mark.parametrize(
    ("classes", "settings", "error", "part"),
    [
        (Cat | Dog, {}, memdb.ConfigError, "needs a name"),
        (Cat | int, {"name": "x"}, memdb.RecordTypeError, "int is no record class"),
        (Cat | dict, {"name": "x"}, memdb.RecordTypeError, "Plain dicts can't share"),
        (Cat, {"tags": {"a": Dog, "Cat": Robot}}, memdb.ConfigError, "the tag 'Cat'"),
        (Cat | Dog, {"name": "x", "aliases": {"Cat": Dog}}, memdb.ConfigError, "can't be an alias"),
        (Cat, {"tags": [Dog]}, memdb.ConfigError, "tags= is a mapping"),
        (Animal, {"tags": {"a": Cat, "b": Cat}}, memdb.ConfigError, "two names for one class"),
        ("x", {"subclasses": True}, memdb.ConfigError, "is for a class"),
        (Animal, {"tags": {"\ud800": Cat}}, memdb.ConfigError, "leads from a name to a class"),
        (Animal, {"tags": {"": Cat}}, memdb.ConfigError, "leads from a name to a class"),
        (Cat | Stone, {"name": "x", "key": "name"}, memdb.ConfigError, "no field of Stone"),
    ],
)
def test_what_makes_no_sense_is_refused(
    db: memdb.Database, classes: Any, settings: dict[str, Any], error: type[Exception], part: str
) -> None:
    """Before anything is written."""
    with pytest.raises(error, match=part):
        db.collection(classes, **settings)


def test_an_abstract_class_without_subclasses_is_refused(db: memdb.Database) -> None:
    """The message says that they must be imported."""

    class Alone(abc.ABC):
        @abc.abstractmethod
        def area(self) -> float: ...

    with pytest.raises(memdb.RecordTypeError, match=r"has no subclass yet. Import the modules"):
        db.collection(Alone, subclasses=True)
