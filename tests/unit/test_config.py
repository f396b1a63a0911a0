"""The settings: where they come from, what is refused, and what contradicts what."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from memdb._config import Config, resolve
from memdb.errors import ConfigError
from memdb.serializers import get_serializer

ALL = {
    "serializer": "json",
    "cloner": "roundtrip",
    "durability": "buffered",
    "flush_interval": 0.25,
    "cache": 500,
    "checkpoint_interval": 1000,
}

TOML = """
serializer = "json"
cloner = "roundtrip"
durability = "buffered"
flush_interval = 0.25
cache = 500
checkpoint_interval = 1000
"""

JSON = """{"serializer": "json", "cloner": "roundtrip", "durability": "buffered",
"flush_interval": 0.25, "cache": 500, "checkpoint_interval": 1000}"""


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave no variable of the machine's in the environment."""
    for name in [field.name for field in dataclasses.fields(Config)]:
        monkeypatch.delenv(f"MEMDB_{name.upper()}", raising=False)


class TestValues:
    """What each setting may be."""

    def test_defaults(self) -> None:
        """Without settings the defaults hold."""

        assert dataclasses.asdict(Config()) == {
            "serializer": "binary",
            "cloner": "auto",
            "durability": "written",
            "flush_interval": 1.0,
            "cache": "all",
            "trusted_serializers": (),
            "checkpoint_interval": 65_536,
            "refresh": "manual",
            "key": None,
            "password": None,
            "key_env": None,
            "password_env": None,
            "encrypt": "all",
            "compact_when": None,
        }

    def test_is_frozen(self) -> None:
        """A configuration can't be changed."""
        config = Config()

        with pytest.raises(dataclasses.FrozenInstanceError):
            config.cache = "none"  # type: ignore[misc]

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("serializer", "pickle"),
            ("serializer", "somewhere.module:factory"),
            ("serializer", get_serializer("json")),
            ("cloner", "share"),
            ("cloner", "copy:deepcopy"),
            ("cloner", lambda record: record),
            ("durability", "synced"),
            ("flush_interval", 86_400),
            ("flush_interval", 1e-3),
            ("cache", 1),
            ("cache", "none"),
            ("checkpoint_interval", 1),
        ],
    )
    def test_allowed(self, name: str, value: object) -> None:
        """Each of these is taken as it is given."""

        assert getattr(Config(**{name: value}), name) == value  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        ("name", "value", "expected"),
        [
            ("serializer", "jsn", "'json'"),
            ("serializer", "", "serializer"),
            ("serializer", ":", "'package.module:factory'"),
            ("serializer", 3, "no serializer"),
            ("serializer", None, "no serializer"),
            ("cloner", "rondtrip", "Did you mean 'roundtrip'?"),
            ("cloner", "a b:c", "'package.module:function'"),
            ("cloner", None, "'auto'"),
            ("durability", "SYNCED", "Did you mean 'synced'?"),
            ("durability", True, "'buffered', 'written' or 'synced'"),
            ("flush_interval", 0, "seconds above 0 and at most 86400"),
            ("flush_interval", -1.0, "seconds above 0"),
            ("flush_interval", 86_401, "at most 86400"),
            ("flush_interval", float("nan"), "seconds above 0"),
            ("flush_interval", float("inf"), "at most 86400"),
            ("flush_interval", "1", "seconds above 0"),
            ("flush_interval", True, "seconds above 0"),
            ("cache", 0, "at least 1"),
            ("cache", True, "at least 1"),
            ("cache", 1.5, "at least 1"),
            ("cache", "nome", "Did you mean 'none'?"),
            ("cache", None, "'all', 'none'"),
            ("checkpoint_interval", 0, "at least 1"),
            ("checkpoint_interval", 1.0, "at least 1"),
            ("checkpoint_interval", "all", "a number of versions"),
        ],
    )
    def test_refused(self, name: str, value: object, expected: str) -> None:
        """A wrong value is named with its setting and with what is allowed."""
        with pytest.raises(ConfigError) as caught:
            Config(**{name: value})  # type: ignore[arg-type]

        assert f"{name}={value!r} is not allowed" in str(caught.value)
        assert expected in str(caught.value)

    def test_all_wrong_ones_are_named(self) -> None:
        """One error names every wrong setting."""
        with pytest.raises(ConfigError, match=r"durability='x'.*cache=0.*checkpoint_interval=0"):
            Config(durability="x", cache=0, checkpoint_interval=0)  # type: ignore[arg-type]

    def test_seconds_become_a_float(self) -> None:
        """An interval given as an integer is kept as a float."""

        assert type(Config(flush_interval=2).flush_interval) is float

    def test_every_setting_is_documented(self) -> None:
        """Each setting says its effect, cost, risk, default, and whether it may change."""
        documentation = inspect.getdoc(Config) or ""
        for field in dataclasses.fields(Config):
            _, _, rest = documentation.partition(f"    {field.name}: ")
            paragraph = " ".join(rest.split()).partition("While open:")[0]

            assert rest, field.name
            for word in ("Effect:", "Cost:", "Risk:", "Default:"):
                assert paragraph.count(word) == 1, (field.name, word)
            shown = f"{field.default:,}" if field.name == "checkpoint_interval" else field.default
            assert f"{shown}" in paragraph.partition("Default:")[2]


class TestLoad:
    """Where settings are read from."""

    @pytest.mark.parametrize(("name", "text"), [("c.toml", TOML), ("c.json", JSON)])
    def test_file(self, tmp_path: Path, name: str, text: str) -> None:
        """A TOML and a JSON file give the same configuration."""
        path = tmp_path / name
        path.write_text(text)

        assert Config.load(path) == Config(**ALL) == Config.load(str(path))  # type: ignore[arg-type]

    def test_table(self, tmp_path: Path) -> None:
        """Of a file with a table for memdb only that table is read."""
        path = tmp_path / "program.TOML"
        path.write_text('title = "My program"\n[memdb]\ncache = "none"\n[window]\nwidth = 80\n')

        assert Config.load(path) == Config(cache="none")

    def test_mapping(self) -> None:
        """A mapping is read as it is; it may hold objects that no file can."""
        serializer = get_serializer("json")

        assert Config.load({"serializer": serializer}).serializer is serializer
        assert Config.load({}) == Config()

    def test_table_of_a_mapping(self) -> None:
        """A table for memdb in a mapping must be one."""
        with pytest.raises(ConfigError, match="'memdb' must be a table"):
            Config.load({"memdb": 3})

    def test_environment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Without a source the environment is read, and numbers are made of text."""
        for name, value in ALL.items():
            monkeypatch.setenv(f"MEMDB_{name.upper()}", str(value))
        monkeypatch.setenv("MEMDB_VERIFY", "1")

        assert Config.load() == Config(**ALL)  # type: ignore[arg-type]

    def test_environment_with_words(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A word stays a word where a number could stand."""
        monkeypatch.setenv("MEMDB_CACHE", "none")

        assert Config.load().cache == "none"

    def test_empty_environment(self) -> None:
        """Without variables the defaults hold."""

        assert Config.load() == Config()

    @pytest.mark.parametrize(
        ("variable", "value"),
        [
            ("MEMDB_FLUSH_INTERVAL", "soon"),
            ("MEMDB_CHECKPOINT_INTERVAL", "1.5"),
            ("MEMDB_CACHE", ""),
        ],
    )
    def test_wrong_variable(
        self, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
    ) -> None:
        """A variable with a wrong value is refused, and the error says where it is."""
        monkeypatch.setenv(variable, value)

        with pytest.raises(ConfigError, match=r"In the environment: .*is not allowed"):
            Config.load()

    def test_unknown_variable(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A variable of memdb's prefix that is no setting is refused."""
        monkeypatch.setenv("MEMDB_DURABILTY", "synced")

        with pytest.raises(ConfigError, match="Did you mean 'durability'"):
            Config.load()

    @pytest.mark.parametrize(
        ("name", "content", "expected"),
        [
            ("c.toml", None, "there is no such"),
            ("c.yaml", b"", r"ends in .toml or .json, not in '.yaml'"),
            ("config", b"", "not in 'nothing'"),
            ("c.toml", b"cache = ", "is not valid TOML"),
            ("c.toml", b"cache = '\xff'", "is not valid TOML"),
            ("c.json", b"{", "is not valid JSON"),
            ("c.json", b"[1]", "must hold an object"),
            ("c.json", b'{"memdb": 1}', "must be a table"),
            ("c.json", b'{"cache": 0}', "cache=0 is not allowed"),
            ("c.json", b'{"cash": 1, "cloned": 2}', "'cash'.*'cache'.*'cloned'.*'cloner'"),
        ],
    )
    def test_wrong_file(
        self, tmp_path: Path, name: str, content: bytes | None, expected: str
    ) -> None:
        """Whatever is wrong with a file, the error names it."""
        path = tmp_path / name
        if content is not None:
            path.write_bytes(content)

        with pytest.raises(ConfigError, match=expected) as caught:
            Config.load(path)
        assert str(path) in str(caught.value)

    def test_folder(self, tmp_path: Path) -> None:
        """A folder that is named like a file is refused."""
        path = tmp_path / "c.toml"
        path.mkdir()

        with pytest.raises(ConfigError, match="can't be read"):
            Config.load(path)

    def test_wrong_source(self) -> None:
        """What is no source at all is refused."""
        with pytest.raises(ConfigError, match="can't be read from a int"):
            Config.load(3)  # type: ignore[arg-type]


class TestMerge:
    """One configuration over another."""

    def test_nothing_to_do(self) -> None:
        """Without settings the configuration stays the same object."""
        config = Config(cache=3)

        assert Config.merge(config, {}) is config
        assert config.replace() is config

    def test_settings_win(self) -> None:
        """Settings replace those of the configuration, which keeps its own."""
        config = Config(cache=3, durability="synced")

        assert Config.merge(config, {"cache": 5}) == Config(cache=5, durability="synced")
        assert config.cache == 3

    def test_sources(self, tmp_path: Path) -> None:
        """A path, a mapping and None may stand for a configuration."""
        path = tmp_path / "c.toml"
        path.write_text("cache = 7")

        assert Config.merge(path, {}) == Config(cache=7) == Config.merge({"cache": 7}, {})
        assert Config.merge(None, {"cache": 7}) == Config(cache=7)

    def test_environment_is_not_read(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """No configuration means the defaults, whatever the environment says."""
        monkeypatch.setenv("MEMDB_CACHE", "7")

        assert Config.merge(None, {}) == Config()

    def test_unknown_ones_are_all_named(self) -> None:
        """One error names every setting that does not exist, with the nearest that does."""
        with pytest.raises(ConfigError) as caught:
            Config().replace(serialiser="json", cahe=1, tint="red")

        text = str(caught.value)
        assert "no setting 'serialiser'. Did you mean 'serializer'?" in text
        assert "no setting 'cahe'. Did you mean 'cache'?" in text
        assert "no setting 'tint'. The settings are serializer, cloner" in text


class TestResolve:
    """What contradicts what when a database is opened."""

    @pytest.mark.parametrize(
        ("path", "mode", "settings"),
        [
            ("a.memdb", "rw", ALL),
            ("a.memdb", "append", ALL),
            ("a.memdb", "r", {"cache": 3, "cloner": "share", "serializer": "json"}),
            (None, "rw", {"durability": "buffered", "cache": "none"}),
            (Path("a.memdb"), "rw", {}),
        ],
    )
    def test_fits(self, path: str | None, mode: str, settings: Mapping[str, Any]) -> None:
        """These settings go together."""

        assert resolve(path, mode, None, settings) == Config(**settings)

    @pytest.mark.parametrize(
        ("path", "mode", "settings", "expected"),
        [
            ("a.memdb", "apend", {}, "Did you mean 'append'?"),
            ("a.memdb", "w", {}, "'rw', 'r' or 'append'"),
            ("a.memdb", None, {}, "mode=None is not allowed"),
            (None, "r", {}, "mode='r' contradicts path=None"),
            (None, "append", {}, "mode='append' contradicts path=None"),
            (None, "rw", {"durability": "synced"}, "durability='synced' contradicts path=None"),
            ("a.memdb", "r", {"durability": "written"}, "mode='r' contradicts durability"),
            (
                "a.memdb",
                "r",
                {"checkpoint_interval": 3, "flush_interval": 1.0},
                "contradicts flush_interval and checkpoint_interval",
            ),
            ("a.memdb", "rw", {"sync": True}, "no setting 'sync'"),
        ],
    )
    def test_contradicts(
        self, path: str | None, mode: str, settings: Mapping[str, Any], expected: str
    ) -> None:
        """These do not, and the error says why."""
        with pytest.raises(ConfigError) as caught:
            resolve(path, mode, None, settings)

        assert expected in str(caught.value)

    def test_shared_configuration(self) -> None:
        """A reader may use the configuration of a writer."""
        config = Config(durability="synced", flush_interval=3.0)

        assert resolve("a.memdb", "r", config, {"cache": 3}) == config.replace(cache=3)

    def test_configuration_in_memory(self) -> None:
        """A promise that memory can't keep is refused wherever it comes from."""
        with pytest.raises(ConfigError, match="nothing to sync"):
            resolve(None, "rw", Config(durability="synced"), {})
