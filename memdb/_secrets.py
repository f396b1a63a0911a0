"""From settings to the keys of an encrypted database: variables are read, functions called."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from memdb._config import KEY_SETTINGS, Config, hidden, key_from_text
from memdb.errors import ConfigError, WrongKeyError
from memdb.storage import Keys, Secret, refuse_unusable

if TYPE_CHECKING:
    Given = str | bytes | Secret | Callable[[], str | bytes] | None


def keys_of(config: Config, path: str | None) -> Keys | None:
    """Return the keys that the settings lead to, None for a plain database.

    Args:
        config: The settings. A function in them is called, once.
        path: The file, for messages.

    Raises:
        WrongKeyError: A variable is not set, or what is there can't be a key.
        ConfigError: A function returns something else.
    """
    secret = None
    if config.key_env is not None or config.password_env is not None:
        secret = _from_environment(config, path)
    elif config.key is not None:
        secret = fetched("key", config.key)
    elif config.password is not None:
        secret = fetched("password", config.password)
    if secret is None:
        return None
    # Here already: what can open nothing makes no file either.
    refuse_unusable(secret, path)
    return Keys(secret, wants_marked=config.encrypt == "marked")


def without_secrets(config: Config) -> Config:
    """Return the settings as a database that is open keeps them."""
    return config.replace(**dict.fromkeys(KEY_SETTINGS))


def fetched(name: str, value: Any) -> Secret:
    """Return the secret of a setting ``key`` or ``password``; a function is called.

    Raises:
        ConfigError: The function returns something else.
    """
    if callable(value):
        found = value()
        # A text can be no key: it is a password, whatever the setting is called.
        kind = "password" if isinstance(found, str) else name
        value = hidden(kind, found)
        if not isinstance(value, Secret):
            raise ConfigError(
                f"the function of {name}= returned a value of type {type(found).__name__}. Let it"
                " return the key as 32 bytes, or the password as a str."
            )
    assert isinstance(value, Secret)
    return value


def new_secret(key: Given, password: Given) -> Secret:
    """Return the secret that a file is to have from now on.

    Raises:
        ConfigError: Not just one of the two is given, or it is of a wrong type.
    """
    if (key is None) == (password is None):
        raise ConfigError("rekey() takes a key= or a password=, and just one of them.")
    config = Config(key=key, password=password)  # type: ignore[arg-type]
    name = "password" if key is None else "key"
    return fetched(name, getattr(config, name))


def _from_environment(config: Config, path: str | None) -> Secret:
    name = "password" if config.key_env is None else "key"
    variable = config.key_env or config.password_env
    assert variable is not None
    text = os.environ.get(variable)
    if not text:
        state = "not set" if text is None else "empty"
        raise WrongKeyError(
            f"{path or 'memory'}: the environment variable {variable} with the {name} is {state}."
            " Set it.",
            path=path,
        )
    if name == "password":
        return Secret("password", text)
    key = key_from_text(text)
    if key is None:
        raise WrongKeyError(
            f"{path or 'memory'}: the environment variable {variable} has {len(text)} characters"
            " that spell no key. Set it to 64 hexadecimal digits, or to the key in Base64.",
            path=path,
        )
    return Secret("key", key)
