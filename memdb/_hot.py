"""The three calls that must cost next to nothing, generated for each collection.

They are methods of a class made for the one collection, so that what they need are closure
variables and the record's class, its copy and its encoder are spelled out in the source: a
lookup on `self` costs 5 ns and there would be ten of them, and a call of a cloner costs 40 ns,
where a ``get`` as a whole takes 90 (benchmarks ``get`` and ``insert``).
Whatever is not the plain case goes to the method of `Collection` that they stand in for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from memdb.errors import EncodeError
from memdb.indexes import (
    NUMBER_MASK,
    TAG_OF_STR,
    HashedIdentities,
    IdentityIndex,
    first_seed,
)
from memdb.serializers import Shape
from memdb.serializers._plan import attribute
from memdb.storage import Kind

if TYPE_CHECKING:
    from memdb._collection import Collection
    from memdb._natural_key import NaturalKey
    from memdb._store import Store

Method = Callable[..., Any]


def read_methods(store: Store, slow: type[Collection[Any]]) -> dict[str, Method]:
    """Return ``get`` and ``__getitem__`` for a collection with a cache.

    A hit in the cache proves that the database is open and that no transaction has touched the
    record, see `Store.cache`; so nothing is checked and no lock taken.
    """
    key = store.key
    if store.cache_limit == 0 or (key is not None and len(key.fields) > 1):
        return {}
    cloner = store.cloner
    if cloner.inline_expression is not None:
        copy = ["return " + cloner.inline_expression.replace("{r}", "r")]
    elif cloner.inline_lines is not None:
        copy = [line.replace("{r}", "r").replace("{o}", "o") for line in cloner.inline_lines]
        copy.append("return o")
    else:
        copy = ["return clone(r)"]
    if key is None:
        type_name, number = "int", "identity"
        is_it = []
    else:
        # The plain case of a natural key, a text under its first number. The other record that
        # may be there has another key; and no key that is stored is of a subclass of str.
        type_name, number = "str", "digest(identity.encode(), seed) & mask or 1"
        is_it = [f"if {_value_of('r', store, key.fields[0])} == identity:"]
    copy = ["    " * len(is_it) + line for line in copy]
    body = [
        f"    if type(identity) is {type_name}:",
        "        try:",
        f"            r = cache[{number}]",
        f"        except {'KeyError' if key is None else '(KeyError, UnicodeEncodeError)'}:",
        "            pass",
        "        else:",
        *("            " + line for line in is_it + copy),
    ]
    source = [
        "def get(self, identity, default=None):",
        *body,
        "    return slow_get(self, identity, default)",
        "def __getitem__(self, identity):",
        *body,
        "    return slow_getitem(self, identity)",
    ]
    namespace: dict[str, Any] = {
        **cloner.namespace,
        "cache": store.cache,
        "clone": cloner.clone,
        **({} if key is None else _hash_names(key)),
        "slow_get": slow.get,
        "slow_getitem": slow.__getitem__,
    }
    return _compile(store, source, namespace, slow, ("get", "__getitem__"))


def _value_of(record: str, store: Store, name: str) -> str:
    return f"{record}.get({name!r})" if store.shape.kind == "dict" else attribute(record, name)


def _hash_names(key: NaturalKey) -> dict[str, Any]:
    return {"digest": key.digest, "mask": NUMBER_MASK, "seed": first_seed(key.seed, TAG_OF_STR)}


def insert_method(store: Store, slow: type[Collection[Any]]) -> dict[str, Method]:
    """Return ``insert`` for a collection that the catalogue has.

    The plain case: a record of the class itself, with a text as its natural key that is not there
    or without an identity of its own; no transaction, closed or failed log, or other reason in
    the gate.
    """
    engine, member = store.engine, store.members.sole
    if member is None or not store.is_registered(member) or store.is_borrowed():
        return {}
    if engine.mode == "r":
        return {}
    if store.indexes.is_checked:
        return {}
    plain = _numbered(store, member.shape) if store.key is None else _keyed(store, store.key)
    referred = _referred(store)
    if plain is None or referred is None:
        return {}
    names = {}
    is_as_annotated = []
    if len(store.indexes):
        # What its class does not promise may be no key of an index: the slow way looks.
        names["exact_start"] = bytes([store.serializer.exact_start])  # type: ignore[attr-defined]
        is_as_annotated = [
            "        if payload[:1] == exact_start:",
            "            return slow_insert(record)",
        ]
    unique = _unique(store, plain.number)
    publish = [
        f"slot = append_one({plain.number}, payload, end_of_pointer)",
        "horizon.slot = slot + 1",
        *plain.publish,
    ]
    if unique.publish:
        publish = [
            "first = log.next_slot",
            "try:",
            *("    " + line for line in [*publish, *unique.publish]),
            # An interrupt may hit between the calls that change the unique indexes.
            "except BaseException:",
            "    catch_up(first)",
            "    raise",
        ]
    source = [
        "def insert(self, record, *, encrypt=False):",
        "    if encrypt:",
        "        return slow_insert(record, True)",
        *("    " + line for line in plain.prepare),
        *is_as_annotated,
        *("        " + line for line in [*unique.prepare, *referred.prepare]),
        "        with lock:",
        *("            " + line for line in [*plain.find, *unique.find]),
        f"            if log.gate is None and {plain.is_free}{unique.is_free}{referred.is_free}:",
        # Invariant: no interrupt (Ctrl-C) can come between the end of append_one and the end
        # of publishing: CPython looks for signals behind calls of C functions and at the start
        # of Python ones, not at their return.
        *("                " + line for line in publish),
        *(["                end = log.end"] if engine.is_synced else []),
        "                is_done = True",
        "            else:",
        "                is_done = False",
        "        if is_done:",
        *(["            sync_to(end)"] if engine.is_synced else []),
        "            return identity",
        "    return slow_insert(record)",
    ]
    namespace: dict[str, Any] = {
        "cls": member.shape.cls,
        "encode": member.codec.encode,
        "lock": engine.log.lock,
        "log": engine.log,
        "horizon": store.horizon,
        "identities": store.identities,
        "append_one": engine.log.append_one,
        "sync_to": engine.log.sync_to,
        "end_of_pointer": member.pointer_ends[Kind.INSERTED],
        "slow_insert": store.insert,
        "EncodeError": EncodeError,
        **names,
        **unique.names,
        **referred.names,
        **plain.names,
    }
    return _compile(store, source, namespace, slow, ("insert",))


class _Plain(NamedTuple):
    """The lines of an ``insert`` that one kind of identities makes different.

    Attributes:
        prepare: From ``record`` to ``payload``, and the condition under which all is plain so far.
        find: What is looked up when the lock is held.
        is_free: The condition under which the record is a new one.
        number: Of the record.
        publish: What makes the version in ``slot`` the live one.
        names: What the lines use besides.
    """

    prepare: list[str]
    find: list[str]
    is_free: str
    number: str
    publish: list[str]
    names: dict[str, Any]


def _unique(store: Store, number: str) -> _Plain:
    """Return what unique indexes add to an ``insert``: the keys that nobody may have."""
    bounds = store.indexes.claimed
    # Others may be added while this is running, or by whoever has kept the bound method.
    is_present = " and indexes.token is token"
    names: dict[str, Any] = {"indexes": store.indexes, "token": store.indexes.token}
    if not bounds:
        return _Plain([], [], is_present, number, [], names)
    names["catch_up"] = store.engine.catch_up
    prepare, publish = [], []
    tests = [f"{is_present} and len(uniques) == {len(bounds)}"]
    for place, bound in enumerate(bounds):
        names[f"keys_of{place}"], names[f"name{place}"] = bound.keys_of, bound.name
        prepare.append(f"keys{place} = keys_of{place}(record)")
        entries = f"uniques[name{place}]"
        tests.append(f" and not (keys{place} and keys{place}[0] in {entries}.numbers)")
        publish += [f"if keys{place}:", f"    {entries}.set({number}, keys{place}[0])"]
    find = ["uniques = indexes.uniques"]
    return _Plain(prepare, find, "".join(tests), number, publish, names)


def _referred(store: Store) -> _Plain | None:
    """Return what checked foreign keys add: the records that it refers to have to be there.

    The plain case is one identity that is an integer; where they are others, or not there, the
    slow way looks. 1.3 us instead of 6 (``python -m benchmark.foreign_keys``).
    """
    names: dict[str, Any] = {}
    prepare, tests = [], []
    for place, reference in enumerate(store.checked):
        name, targets = reference.field, reference.candidates
        if len(targets) != 1 or targets[0].key is not None or reference.is_many:
            return None
        if name == store.shape.identity:
            return None
        names[f"find{place}"] = targets[0].identities.find
        own = f"refers{place}"
        prepare.append(f"{own} = {_value_of('record', store, name)}")
        tests.append(f" and ({own} is None or (type({own}) is int and find{place}({own})))")
    return _Plain(prepare, [], "".join(tests), "", [], names)


def _numbered(store: Store, shape: Shape) -> _Plain | None:
    """Return the case of dense identities that are assigned."""
    identities = store.identities
    if not isinstance(identities, IdentityIndex):
        return None
    if any(f.name == shape.identity and f.required and not f.in_init for f in shape.fields):
        # A field that the constructor does not set may be missing: the slow way looks.
        return None
    has_no_identity = ""
    if shape.identity is not None:
        is_dict = shape.kind == "dict"
        own = f"record.get({shape.identity!r})" if is_dict else f"record.{shape.identity}"
        has_no_identity = f" and ((own := {own}) is zero or own is None)"
    return _Plain(
        prepare=[
            f"if type(record) is cls{has_no_identity}:",
            "    try:",
            "        payload = encode(record)",
            "    except EncodeError:",
            # Again, for the error that names collection and record.
            "        return slow_insert(record)",
        ],
        find=["identity = len(dense)"],
        is_free="identities.is_dense",
        number="identity",
        publish=["append(slot)"],
        names={
            # By identity: False, 0.0 and "" are no zero; another int that is 0 takes the slow way.
            "zero": 0,
            "dense": identities.dense,
            "append": identities.dense.append,
        },
    )


def _keyed(store: Store, key: NaturalKey) -> _Plain | None:
    """Return the case of a text as natural key, whose number no record has or had.

    Spelled out, as each call costs 50 to 100 ns and the slow way makes thirty of them: 2.2 us
    instead of 4.9 (benchmark ``key_insert``).
    """
    if not isinstance(store.identities, HashedIdentities) or key.sole_field is None:
        return None
    value = _value_of("record", store, key.sole_field)
    return _Plain(
        prepare=[
            "number = 0",
            "if type(record) is cls:",
            "    try:",
            f"        identity = {value}",
            "        if type(identity) is str:",
            "            payload = encode(record)",
            "            number = digest(identity.encode(), seed) & mask or 1",
            # The slow way again, for the error that names collection and record.
            "    except (EncodeError, UnicodeEncodeError, AttributeError):",
            "        pass",
            "if number:",
        ],
        # `HashedIdentities.set` up to where it changes something.
        find=[
            "numbers, slots, shift, last = identities.table",
            "place = number >> shift",
            "while other := numbers[place]:",
            "    if other == number:",
            "        break",
            "    place += 1",
        ],
        # The key of a record that has the number is compared in the slow way, which may run a
        # user's upgrade. Where one was displaced, any key may be under another number.
        is_free="not other and identities.room and place != last and not key.is_displaced",
        number="number",
        publish=["slots[place] = slot", "numbers[place] = number", "identities.room -= 1"],
        names={"key": key, **_hash_names(key)},
    )


def _compile(
    store: Store,
    lines: list[str],
    namespace: dict[str, Any],
    slow: type[Collection[Any]],
    names: tuple[str, ...],
) -> dict[str, Method]:
    """Run the source inside a function, so that its names are fast closure variables."""
    parameters = ", ".join(namespace)
    source = "\n".join(
        [
            f"def make({parameters}):",
            *("    " + line for line in lines),
            f"    return {', '.join(names)},",
        ]
    )
    made: dict[str, Any] = {}
    exec(compile(source, f"<memdb {store.name}>", "exec"), made)
    methods = dict(zip(names, made["make"](**namespace), strict=True))
    for name, method in methods.items():
        method.__doc__ = getattr(slow, name).__doc__
        method.__qualname__ = f"{slow.__name__}.{name}"
        method.__module__ = slow.__module__
    return methods
