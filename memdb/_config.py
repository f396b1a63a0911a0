"""The settings of a database: where they come from, what they may be, and what each one costs.

`Config` is a frozen value. It is built by keyword, read by `Config.load` from a TOML or JSON file,
a mapping or the environment, and joined with the keywords of `memdb.open` by `resolve`.
"""

from __future__ import annotations

import base64
import dataclasses
import difflib
import math
import os
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, cast

import orjson

from memdb.errors import ConfigError
from memdb.serializers import get_serializer
from memdb.storage import Secret

if TYPE_CHECKING:
    from memdb.serializers import Serializer

Mode = Literal["rw", "r", "append"]
Durability = Literal["buffered", "written", "synced"]

MODES: Final = ("rw", "r", "append")
DURABILITIES: Final = ("buffered", "written", "synced")
CLONERS: Final = ("auto", "roundtrip", "fields", "share")
CACHES: Final = ("all", "none")
ENCRYPTIONS: Final = ("all", "marked")

# What opens an encrypted file, in one way or another.
KEY_SETTINGS: Final = ("key", "password", "key_env", "password_env")
# Of these the secret itself, which does not belong in a file.
_SECRETS: Final = ("key", "password")

LONGEST_FLUSH_INTERVAL_S: Final = 86_400.0

# What only a writer does: to ask for it when reading is a misunderstanding worth an error.
WRITER_SETTINGS: Final = (
    "durability",
    "flush_interval",
    "checkpoint_interval",
    "encrypt",
    "compact_when",
)

# The same for what only a reader does.
READER_SETTINGS: Final = ("refresh",)

_PREFIX: Final = "MEMDB_"
_KEY_DIGITS: Final = 64

# Variables of this prefix that are switches of the program, not settings of a database.
_OTHER_VARIABLES: Final = frozenset({"MEMDB_VERIFY"})


@dataclass(frozen=True, kw_only=True)
class Config:
    """Hold every setting of a database as one immutable, checked value.

    Each wrong setting is named in one `ConfigError`, not only the first. What a collection may
    override (`serializer`, `cloner`, `cache`) is the default for its database here.

    Args:
        serializer: How records become bytes: `"json"`, `"msgpack"`, `"binary"`, `"pickle"`, the
            name of a registered one, a dotted path `"package.module:factory"`, or a `Serializer`.
            Effect: the form of versions written from now on; each version remembers its own.
            Cost: `"binary"` is the smallest and fastest for dataclasses, `"json"` the most
            readable and the slowest. Risk: `"pickle"` runs code that the file names, so that
            it is for files you trust only. Default: `"binary"`. While open: per collection, when
            it is first asked for; on reopening at will, old versions stay readable.
        cloner: How a record is copied where it crosses the boundary: `"auto"`, `"roundtrip"`,
            `"fields"`, `"share"`, a callable, or a dotted path `"package.module:function"`.
            Effect: what a reader may change without touching the cache. Cost: `"auto"` shares
            immutable records and copies others with generated code; `"roundtrip"` costs an encode
            and a decode. Risk: `"fields"` shares nested lists and dicts, `"share"` shares
            everything, so that a careless reader changes what all others see until the next
            reopen. Default: `"auto"`. While open: per collection, when it is first asked for.
        durability: What a returned call promises: `"buffered"`, `"written"` or `"synced"`.
            Effect: `"written"` survives the process being killed, `"synced"` power loss too,
            `"buffered"` neither before the next flush. Cost: `"synced"` waits for the disk at
            each commit; the other two do not. Risk: the changes since the last flush are
            lost when power fails (and, under `"buffered"`, when the process is killed).
            Default: `"written"`. While open: no.
        flush_interval: Seconds between two background flushes, above 0, at most 86,400.
            Effect: an upper bound on what power loss can take under `"buffered"` and `"written"`;
            none under `"synced"`. Cost: one sync each interval in which something changed.
            Risk: a long interval loses more. Default: 1.0. While open: no.
        cache: Which decoded records stay in memory: `"all"`, `"none"`, or their number, at least 1.
            Effect: a cached record is read with a copy only, another one is decoded first.
            Cost: memory for each record kept. Risk: `"all"` grows with the records that are
            touched. Default: `"all"`. While open: per collection, when it is first asked for.
        trusted_serializers: Names of further serializers that versions in the file may be read
            with, besides `"json"`, `"msgpack"`, `"binary"` and the one that is set. Effect: a
            file names what each version was written with; `"pickle"` and a user's own are
            followed only when named here or as `serializer`. Cost: none. Risk: unpickling a
            file that somebody else could write runs their code. Default: (). While open: no.
        checkpoint_interval: Versions between two automatic checkpoints, at least 1.
            Effect: an upper bound on what opening after a crash has to walk. Cost: writing the
            pointers of that many versions a second time. Risk: a small one makes the file
            grow faster, a large one makes opening after a crash slower. Default: 65,536. While
            open: no.
        refresh: When a reader (`mode="r"`) takes in what was committed since: `"manual"`, at
            each `Database.refresh` alone; or seconds, above 0 and at most 86400, between two
            refreshes in the background. Effect: what queries see. Cost: 20 us a refresh and 1 us
            a commit, in a thread of the reader's. Risk: with seconds, two queries one after the
            other may see different commits. Default: `"manual"`. While open: no.
        key: 32 random bytes that open an encrypted database, or a function without arguments that
            fetches them (a text from it is a password), called once at each opening. Effect: a
            file that is made with it is encrypted, one that is there must be so. Cost: 0.6 us a
            record that is written, 0.7 one that is read from the file. Risk: without it, nobody
            can read the file. Default: None, nothing is encrypted. While open: `Database.rekey`.
        password: A password that opens an encrypted database, a text or bytes, or a function that
            fetches it. Effect: that of `key`. Cost: some tenths of a second and 128 MiB at each
            opening besides, so that guessing is slow. Risk: the file is as safe as the password
            is. Default: None. While open: `Database.rekey`.
        key_env: Name of an environment variable with the key, as 64 hexadecimal digits or in
            Base64. Effect: that of `key`, and no secret stands in the configuration. Cost: the
            same. Risk: other processes of the user can read the variable. Default: None. While
            open: no.
        password_env: Name of an environment variable with the password. Effect: that of
            `password`, and no secret stands in the configuration. Cost: the same. Risk: other
            processes of the user can read the variable. Default: None. While open: no.
        encrypt: `"all"` or `"marked"`: every record, or those inserted with ``encrypt=True``.
            Effect: a file that is made with `"all"` has no plain record ever; the catalogue and
            saved indexes are always encrypted. Cost: that of `key` for the records concerned.
            Risk: what is not marked can be read and changed by whoever has the file. Default:
            `"all"`. While open: no.
        compact_when: The part of the log, above 0 and below 1, that old versions and deleted
            records may take before the file is compacted in the background, as `Database.compact`
            does; None for never. Logs of less than a few megabytes are left alone. Effect: the
            file does not grow without end. Cost: reading and writing all that lives, each time;
            a small number makes that frequent. Risk: the history is dropped each time. Default:
            None, as only the program knows whether somebody needs that. While open: no.

    Raises:
        ConfigError: A setting has a value that is not allowed; the message names all of them.

    Example:
        >>> Config(durability="synced", cache=100_000).cache
        100000
        >>> Config(durability="sinced")
        Traceback (most recent call last):
        ...
        memdb.errors.ConfigError: durability='sinced' is not allowed. Use 'buffered', 'written' \
or 'synced'. Did you mean 'synced'?
    """

    serializer: str | Serializer = "binary"
    cloner: str | Callable[[Any], Any] = "auto"
    durability: Durability = "written"
    flush_interval: float = 1.0
    cache: Literal["all", "none"] | int = "all"
    trusted_serializers: tuple[str, ...] = ()
    checkpoint_interval: int = 65_536
    refresh: Literal["manual"] | float = "manual"
    key: bytes | Secret | Callable[[], bytes | str] | None = field(default=None, repr=False)
    password: str | bytes | Secret | Callable[[], bytes | str] | None = field(
        default=None, repr=False
    )
    key_env: str | None = None
    password_env: str | None = None
    encrypt: Literal["all", "marked"] = "all"
    compact_when: float | None = None

    def __post_init__(self) -> None:
        problems = [
            problem
            for name, check in _CHECKS.items()
            if (problem := check(name, getattr(self, name))) is not None
        ]
        given = [name for name in KEY_SETTINGS if getattr(self, name) is not None]
        if len(given) > 1:
            problems.append(f"{_join(given, 'and')} contradict each other. Give one of them.")
        if problems:
            raise ConfigError(" ".join(problems))
        for name in _SECRETS:
            object.__setattr__(self, name, hidden(name, getattr(self, name)))
        object.__setattr__(self, "flush_interval", float(self.flush_interval))
        if not isinstance(self.refresh, str):
            object.__setattr__(self, "refresh", float(self.refresh))
        object.__setattr__(self, "trusted_serializers", tuple(self.trusted_serializers))

    @classmethod
    def load(cls, source: str | os.PathLike[str] | Mapping[str, Any] | None = None) -> Config:
        """Read a configuration from a file, a mapping or the environment.

        A file ends in `.toml` or `.json`. Where a file or a mapping holds a table `memdb`,
        only that table is read, so that the settings can live in a file of the program's own. In
        the environment each setting is a variable in capitals, `MEMDB_FLUSH_INTERVAL=0.5`, and
        each variable of that prefix must be a setting (`MEMDB_VERIFY` alone is something else).

        Args:
            source: A path, a mapping of settings, or None for the environment.

        Returns:
            The configuration; settings that the source does not name have their defaults.

        Raises:
            ConfigError: The file is missing, unreadable, of another suffix or malformed, or a
                setting is unknown or wrong.

        Example:
            >>> Config.load({"memdb": {"cache": "none"}, "window": {"width": 80}}).cache
            'none'
        """
        if source is None:
            return cls._from(_read_environment(os.environ), "the environment")
        if isinstance(source, Mapping):
            return cls._from(_table(source, "the mapping"), "the mapping")
        if isinstance(source, (str, os.PathLike)):
            table = _table(_read_file(Path(source)), str(source))
            _refuse_secrets(table, str(source))
            return cls._from(table, str(source))
        raise ConfigError(
            f"A configuration can't be read from a {type(source).__name__}. "
            "Give a path to a .toml or .json file, a mapping, or None for the environment."
        )

    @classmethod
    def merge(
        cls,
        config: Config | Mapping[str, Any] | str | os.PathLike[str] | None,
        settings: Mapping[str, Any],
    ) -> Config:
        """Return `config` with `settings` over it; None stands for the defaults.

        Args:
            config: A configuration, or what `load` can read one from; the environment is never
                read here.
            settings: Settings that win over those of `config`.

        Returns:
            `config` itself when there is nothing to override.

        Raises:
            ConfigError: A setting is unknown or wrong, or `config` can't be read.

        Example:
            >>> Config.merge(Config(cache="none"), {"flush_interval": 5}).flush_interval
            5.0
        """
        if config is None:
            base = cls()
        elif isinstance(config, Config):
            base = config
        else:
            base = cls.load(config)
        return base.replace(**settings)

    def replace(self, **settings: Any) -> Config:
        """Return a copy with some settings changed.

        Args:
            settings: The settings to change, by name.

        Returns:
            This configuration itself when no setting is given.

        Raises:
            ConfigError: A setting is unknown or wrong.

        Example:
            >>> Config().replace(cache=10).cache
            10
        """
        if not settings:
            return self
        _refuse_unknown(settings, "")
        return dataclasses.replace(self, **settings)

    @classmethod
    def _from(cls, settings: Mapping[str, Any], origin: str) -> Config:
        """Build a configuration, naming in each error where the settings come from."""
        _refuse_unknown(settings, origin)
        try:
            return cls(**settings)
        except ConfigError as error:
            raise ConfigError(f"In {origin}: {error}") from None


def resolve(
    path: str | os.PathLike[str] | None,
    mode: str,
    config: Config | Mapping[str, Any] | str | os.PathLike[str] | None,
    settings: Mapping[str, Any],
) -> Config:
    """Return the settings for opening `path`, or refuse what contradicts itself.

    A writer's setting contradicts mode `"r"` when it is given as a keyword, and a reader's the
    others. In a `config` they do not: a reader and a writer may share one.

    Args:
        path: The file; None for a database in memory only.
        mode: `"rw"`, `"r"` or `"append"`.
        config: What to start from; None for the defaults.
        settings: The keywords of `memdb.open`.

    Returns:
        The settings that hold.

    Raises:
        ConfigError: The mode or a setting is unknown or wrong, or they contradict each other.
    """
    problem = _one_of(MODES)("mode", mode)
    if problem is not None:
        raise ConfigError(problem)
    resolved = Config.merge(config, settings)
    if path is None and mode != "rw":
        raise ConfigError(
            f"mode={mode!r} contradicts path=None: a database in memory starts empty. "
            "Give a path, or leave the mode at 'rw'."
        )
    if path is None and resolved.durability == "synced":
        raise ConfigError(
            "durability='synced' contradicts path=None: a database in memory has nothing to "
            "sync. Give a path, or leave out the durability."
        )
    if resolved.encrypt == "marked" and not is_keyed(resolved):
        raise ConfigError(
            "encrypt='marked' needs a key: give key=, password=, key_env= or password_env=."
        )
    for_readers = [name for name in READER_SETTINGS if name in settings]
    if mode != "r" and for_readers:
        raise ConfigError(
            f"mode={mode!r} contradicts {_join(for_readers, 'and')}: a writer knows every commit."
            " Leave out what is for readers, or open with mode='r'."
        )
    for_writers = [name for name in WRITER_SETTINGS if name in settings]
    if mode == "r" and for_writers:
        raise ConfigError(
            f"mode='r' contradicts {_join(for_writers, 'and')}: a reader writes nothing. "
            "Leave out what is for writers, or open with mode='rw'."
        )
    return resolved


def is_keyed(config: Config) -> bool:
    """Whether the settings are those of an encrypted database."""
    return any([getattr(config, name) is not None for name in KEY_SETTINGS])


def hidden(name: str, value: Any) -> Any:
    """Return what a setting says of a secret, wrapped so that nobody sees it."""
    if isinstance(value, (str, bytes, bytearray, memoryview)):
        return Secret("key" if name == "key" else "password", value)
    return value


def nearest(name: object, names: Iterable[str]) -> str:
    """Return `" Did you mean 'x'?"` for the closest of `names`, or nothing when none is close."""
    if not isinstance(name, str):
        return ""
    found = difflib.get_close_matches(name.lower(), list(names), n=1)
    return f" Did you mean {found[0]!r}?" if found else ""


def _join(names: Iterable[object], word: str) -> str:
    """Join names for a sentence: `a, b or c`."""
    texts = [str(name) for name in names]
    return f" {word} ".join([", ".join(texts[:-1]), texts[-1]] if len(texts) > 1 else texts)


def _refuse_unknown(settings: Mapping[str, Any], origin: str) -> None:
    """Raise one error that names every setting that does not exist."""
    known = [field.name for field in dataclasses.fields(Config)]
    unknown = [name for name in settings if name not in known]
    if not unknown:
        return
    parts = [f"There is no setting {name!r}.{nearest(name, known)}" for name in unknown]
    where = f"In {origin}: " if origin else ""
    raise ConfigError(f"{where}{' '.join(parts)} The settings are {_join(known, 'and')}.")


def _refuse_secrets(settings: Mapping[str, Any], origin: str) -> None:
    """Raise if a file of settings has a secret in it."""
    found = [name for name in _SECRETS if name in settings]
    if found:
        variables = _join([f"{name}_env" for name in found], "or")
        raise ConfigError(
            f"In {origin}: {_join(found, 'and')}: a secret does not belong in a file of settings."
            f" Name an environment variable that has it: {variables}."
        )


def _read_file(path: Path) -> Mapping[str, Any]:
    """Read a TOML or JSON file whole; every way to fail is a ConfigError that names it."""
    suffix = path.suffix.lower()
    if suffix not in (".toml", ".json"):
        raise ConfigError(
            f"{path}: a configuration file ends in .toml or .json, not in {suffix or 'nothing'!r}."
        )
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise ConfigError(f"{path}: there is no such configuration file.") from None
    except OSError as error:
        raise ConfigError(f"{path}: can't be read ({error.strerror or error}).") from error
    try:
        content = tomllib.loads(data.decode()) if suffix == ".toml" else orjson.loads(data)
    except ValueError as error:
        raise ConfigError(f"{path}: is not valid {suffix[1:].upper()} ({error}).") from error
    if not isinstance(content, dict):
        raise ConfigError(f"{path}: must hold an object of settings.")
    return content


def _table(settings: Mapping[str, Any], origin: str) -> Mapping[str, Any]:
    """Return the table `memdb` of a larger configuration, or all of it when it has none."""
    if "memdb" not in settings:
        return settings
    table = settings["memdb"]
    if not isinstance(table, Mapping):
        raise ConfigError(f"In {origin}: 'memdb' must be a table of settings.")
    return table


def _read_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings among the variables, converted from text where they are numbers."""
    settings: dict[str, Any] = {}
    for variable, text in environment.items():
        if variable.startswith(_PREFIX) and variable not in _OTHER_VARIABLES:
            name = variable.removeprefix(_PREFIX).lower()
            settings[name] = _CONVERSIONS.get(name, str)(text)
    return settings


def _to_int(text: str) -> int | str:
    """Return the integer that `text` spells, or `text` itself for the check to refuse."""
    try:
        return int(text)
    except ValueError:
        return text


def _to_float(text: str) -> float | str:
    """Return the number that `text` spells, or `text` itself for the check to refuse."""
    try:
        return float(text)
    except ValueError:
        return text


def key_from_text(text: str) -> bytes | None:
    """Return the key that a text spells, in hexadecimal or Base64; None if it spells none."""
    text = text.strip()
    try:
        return (
            bytes.fromhex(text) if len(text) == _KEY_DIGITS else base64.b64decode(text, None, True)
        )
    except ValueError:
        return None


_CONVERSIONS: Final[dict[str, Callable[[str], Any]]] = {
    "cache": _to_int,
    "trusted_serializers": lambda text: tuple(part for part in text.split(",") if part),
    "checkpoint_interval": _to_int,
    "flush_interval": _to_float,
    "refresh": _to_float,
    "compact_when": _to_float,
    # What spells no key has no bytes: the opening refuses it then, and says why.
    "key": lambda text: key_from_text(text) or b"",
}


def _wrong(name: str, value: object, allowed: str, hint: str = "") -> str:
    """Say which setting is wrong, with which value, and what is allowed."""
    return f"{name}={value!r} is not allowed. Use {allowed}.{hint}"


def _one_of(names: tuple[str, ...]) -> Callable[[str, object], str | None]:
    """Return a check for a setting that is one of `names`."""

    def check(name: str, value: object) -> str | None:
        if isinstance(value, str) and value in names:
            return None
        return _wrong(name, value, _join(map(repr, names), "or"), nearest(value, names))

    return check


def _check_serializer(name: str, value: object) -> str | None:
    """Refuse a name that is not registered; a dotted path is imported only when it is used."""
    if isinstance(value, str) and ":" in value:
        return None if _is_dotted_path(value) else _wrong(name, value, "'package.module:factory'")
    try:
        get_serializer(cast("str | Serializer", value))
    except ConfigError as error:
        return f"{name}={value!r} is not allowed: {error}"
    return None


def _check_cloner(name: str, value: object) -> str | None:
    """Refuse what is neither a known name, a dotted path nor a callable."""
    if callable(value) or (isinstance(value, str) and (value in CLONERS or _is_dotted_path(value))):
        return None
    allowed = f"{', '.join(map(repr, CLONERS))}, 'package.module:function' or a callable"
    return _wrong(name, value, allowed, nearest(value, CLONERS))


def _check_flush_interval(name: str, value: object) -> str | None:
    """Refuse what is not a number of seconds that a thread can wait for."""
    if _is_interval(value):
        return None
    return _wrong(name, value, "seconds above 0 and at most 86400")


def _check_compact_when(name: str, value: object) -> str | None:
    """Refuse what is not a part of a whole."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if value is None or (is_number and 0 < value < 1):  # type: ignore[operator]
        return None
    return _wrong(name, value, "a number above 0 and below 1, or None for never")


def _check_refresh(name: str, value: object) -> str | None:
    """Refuse what is neither "manual" nor a number of seconds."""
    if value == "manual" or _is_interval(value):
        return None
    allowed = "'manual' or seconds above 0 and at most 86400"
    return _wrong(name, value, allowed, nearest(value, ["manual"]))


def _is_interval(value: object) -> bool:
    """Whether `value` is a number of seconds that a thread can wait for."""
    return (
        isinstance(value, (int, float))
        and not isinstance(value, bool)
        and 0 < value <= LONGEST_FLUSH_INTERVAL_S
        and math.isfinite(value)
    )


def _check_cache(name: str, value: object) -> str | None:
    """Refuse what is neither a policy nor a number of records."""
    if _is_count(value) or (isinstance(value, str) and value in CACHES):
        return None
    hint = nearest(value, CACHES)
    return _wrong(name, value, "'all', 'none' or a number of records, at least 1", hint)


def _check_trusted_serializers(name: str, value: object) -> str | None:
    """Refuse what is not a row of names."""
    if isinstance(value, (list, tuple)) and all(isinstance(n, str) and n for n in value):
        return None
    return _wrong(name, value, "a list of names, as ['pickle']")


def _check_checkpoint_interval(name: str, value: object) -> str | None:
    """Refuse what is not a positive number of versions."""
    return None if _is_count(value) else _wrong(name, value, "a number of versions, at least 1")


def _check_secret(name: str, value: object) -> str | None:
    """Refuse what can be no key or password; the value is never shown."""
    kinds = (bytes, bytearray, memoryview) if name == "key" else (str, bytes, bytearray, memoryview)
    is_right = isinstance(value, Secret) and value.kind == name
    if value is None or is_right or callable(value) or isinstance(value, kinds):
        return None
    allowed = "32 bytes" if name == "key" else "a str or bytes"
    hint = " A text is a password=, or a key_env= names it." if isinstance(value, str) else ""
    return (
        f"{name}= of type {type(value).__name__} is not allowed. Use {allowed}, or a function that"
        f" returns such.{hint}"
    )


def _check_variable(name: str, value: object) -> str | None:
    """Refuse what is no name of an environment variable."""
    if value is None or (isinstance(value, str) and value and not set(value) & {"=", "\0"}):
        return None
    # What is no name may be the secret itself, given to the wrong setting.
    return f"{name}= is not the name of an environment variable. Use one, as 'MEMDB_KEY'."


def _is_count(value: object) -> bool:
    """Whether `value` is an integer of at least 1; True is not meant as one."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _is_dotted_path(value: str) -> bool:
    """Whether `value` has the form `package.module:name`."""
    module, colon, name = value.partition(":")
    parts = [*module.split("."), *name.split(".")]
    return bool(colon) and all(part.isidentifier() for part in parts)


_CHECKS: Final[dict[str, Callable[[str, object], str | None]]] = {
    "serializer": _check_serializer,
    "cloner": _check_cloner,
    "durability": _one_of(DURABILITIES),
    "flush_interval": _check_flush_interval,
    "cache": _check_cache,
    "trusted_serializers": _check_trusted_serializers,
    "checkpoint_interval": _check_checkpoint_interval,
    "refresh": _check_refresh,
    "compact_when": _check_compact_when,
    "key": _check_secret,
    "password": _check_secret,
    "key_env": _check_variable,
    "password_env": _check_variable,
    "encrypt": _one_of(ENCRYPTIONS),
}
