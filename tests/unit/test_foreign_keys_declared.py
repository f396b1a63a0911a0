"""Declaring foreign keys: where they may stand, which collection they lead to, their indexes."""

from __future__ import annotations

import copy
import pickle
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import FrozenInstanceError, dataclass, make_dataclass
from typing import Annotated, Any, Final, Generic, NewType, Optional, TypedDict, TypeVar, Union

import attrs
import msgspec
import pydantic
import pytest

import memdb
from memdb import ConfigError, ForeignKey, HashIndex, SetIndex, SortedIndex
from memdb._foreign_keys import declared_keys
from memdb._references import Reference
from memdb.serializers import shape_of

T = TypeVar("T")


@dataclass
class Customer:
    name: str
    id: int = 0


@dataclass
class Order:
    customer_id: Annotated[int, ForeignKey(Customer, "restrict")]
    note: str = ""
    id: int = 0


KEY = ForeignKey(Customer, "restrict")
CustomerId = NewType("CustomerId", int)
Alias = Annotated[int, KEY]


def with_field(annotation: Any, name: str = "Made") -> Any:
    """Return a class with one field of an annotation."""
    return make_dataclass(name, [("customer", annotation), ("id", int, 0)])


def keys_of(annotation: Any) -> list[tuple[ForeignKey, bool]]:
    """Return the keys that a field of an annotation has, and whether they are for several."""
    found = declared_keys("Made", [shape_of(with_field(annotation))], ())
    return [(declared.key, declared.is_many) for declared in found]


def reference(collection: memdb.Collection[Any]) -> Reference:
    """Return the only foreign key of a collection."""
    (found,) = collection._store.references
    return found


class TestForeignKey:
    def test_says_what_it_is(self) -> None:
        """A key shows how it is written."""

        assert "ForeignKey(Customer)" == repr(ForeignKey(Customer))
        assert "ForeignKey(Customer, on_delete='restrict')" == repr(KEY)
        assert "ForeignKey('Customer', on_delete='cascade')" == repr(
            ForeignKey("Customer", on_delete="cascade")
        )

    def test_is_a_value(self) -> None:
        """Keys that say the same are equal, can be in sets, be copied and pickled."""

        assert ForeignKey(Customer, "restrict") == KEY != ForeignKey(Customer)
        assert ForeignKey("Customer") != ForeignKey(Customer)
        assert 2 == len({KEY, ForeignKey(Customer, "restrict"), ForeignKey("Customer")})
        assert KEY == copy.deepcopy(KEY) == pickle.loads(pickle.dumps(KEY))

    def test_never_changes(self) -> None:
        """A key can't be changed."""
        with pytest.raises(FrozenInstanceError):
            KEY.on_delete = "cascade"  # type: ignore[misc]

    @pytest.mark.parametrize("target", [None, 5, "", "a\nb", int, dict, list[int], Customer("x")])
    def test_targets_that_are_none(self, target: Any) -> None:
        """A target is a class of records or a name."""
        with pytest.raises(ConfigError, match="the target is a record class or the name of a coll"):
            ForeignKey(target)

    @pytest.mark.parametrize("on_delete", [None, "", "delete", True, "CASCADE", ["cascade"]])
    def test_no_such_on_delete(self, on_delete: Any) -> None:
        """There are four ways, and the message names them."""
        with pytest.raises(ConfigError, match="'ignore', 'restrict', 'cascade' or 'set_none', not"):
            ForeignKey(Customer, on_delete)

    def test_the_nearest_on_delete(self) -> None:
        """A slip of the pen is recognised."""
        with pytest.raises(ConfigError, match=r"not 'set_null'. Did you mean 'set_none'\?"):
            ForeignKey(Customer, "set_null")  # type: ignore[arg-type]


ONE: list[Any] = [
    Annotated[int, KEY],
    Annotated[int | None, KEY],
    Annotated[int, KEY] | None,
    Optional[Annotated[int, KEY]],  # noqa: UP045
    Union[Annotated[int, "other", KEY, 5], str, None],  # noqa: UP007
    Annotated[Annotated[int, KEY], "more"],
    Annotated[CustomerId, KEY],
    NewType("Own", Alias),  # type: ignore[valid-newtype]
    Annotated[Any, KEY],
    Annotated[tuple[str, int], KEY],
    Annotated[tuple[str, int] | None, KEY],
]

MANY: list[Any] = [
    Annotated[list[int], KEY],
    Annotated[list[int] | None, KEY],
    Annotated[list[int] | tuple[int, ...], KEY],
    list[Annotated[int, KEY]],
    list[Annotated[int, KEY]] | None,
    list[Annotated[int | None, KEY]],
    Annotated[set[int], KEY],
    frozenset[Alias],
    tuple[Alias, ...],
    Annotated[tuple[int, ...], KEY],
    Annotated[list, KEY],
    Annotated[tuple, KEY],
    Annotated[list[tuple[str, int]], KEY],
    tuple[Annotated[tuple[str, int], KEY], ...],
    Sequence[Alias],
    Annotated[Collection[int], KEY],
]

NOWHERE: list[Any] = [
    dict[str, Alias],
    dict[Alias, str],
    list[list[Alias]],
    tuple[Alias, str],
    list[Annotated[list[int], KEY]],
    dict[str, list[Alias]],
]


class TestAnnotations:
    @pytest.mark.parametrize("annotation", ONE, ids=str)
    def test_one(self, annotation: Any) -> None:
        """A key may stand at any level of what is one identity."""

        assert [(KEY, False)] == keys_of(annotation)

    @pytest.mark.parametrize("annotation", MANY, ids=str)
    def test_many(self, annotation: Any) -> None:
        """So it may around or inside of a collection of identities."""

        assert [(KEY, True)] == keys_of(annotation)

    @pytest.mark.parametrize("annotation", NOWHERE, ids=str)
    def test_elsewhere(self, annotation: Any) -> None:
        """Where nothing could be checked a key is refused."""
        with pytest.raises(ConfigError, match="no foreign key can be inside of that"):
            keys_of(annotation)

    def test_one_or_several(self) -> None:
        """A field is for one identity or for several."""
        with pytest.raises(ConfigError, match=r"customer is int \| list\[int\], and a foreign key"):
            keys_of(Annotated[int | list[int], KEY])

    @pytest.mark.parametrize(
        "annotation",
        [
            Annotated[int, KEY, ForeignKey("Other")],
            Annotated[int, KEY] | Annotated[str, ForeignKey("Other")],
            Annotated[list[Annotated[int, KEY]], ForeignKey("Other")],
        ],
        ids=str,
    )
    def test_two(self, annotation: Any) -> None:
        """A field has one key; the same one twice is one."""
        with pytest.raises(ConfigError, match="customer has two foreign keys, ForeignKey"):
            keys_of(annotation)
        assert [(KEY, True)] == keys_of(Annotated[list[Annotated[int, KEY]], KEY])

    def test_without(self) -> None:
        """Other annotations have none; nor does what a nested record says of its own fields."""

        assert [] == keys_of(int)
        assert [] == keys_of(Annotated[int, "text", 5])
        assert [] == keys_of(Order)
        assert [] == keys_of(list[Order])

    def test_type_statement(self) -> None:
        """An alias of a type statement, from Python 3.12 on, may hold the key."""
        namespace: dict[str, Any] = {"Alias": Alias}
        try:
            exec("type Lazy = Alias\ntype Loop = list[Loop] | int", namespace)
        except SyntaxError:
            pytest.skip("Python has the type statement from 3.12 on")
        lazy: Any = namespace["Lazy"]

        assert [(KEY, False)] == keys_of(lazy)
        assert [(KEY, True)] == keys_of(list[lazy])
        assert [] == keys_of(namespace["Loop"])

    def test_in_generic_classes(self, db: memdb.Database) -> None:
        """What a type variable stands for may have a key."""
        made = db.collection(Box[Alias], name="boxes")  # type: ignore[type-var]
        db.collection(Customer)
        with pytest.raises(memdb.ForeignKeyError):
            made.insert(Box(1))

    def test_that_can_not_be_resolved(self, db: memdb.Database) -> None:
        """A key that would be lost is refused."""

        class Local:
            pass

        @dataclass
        class Lost:
            local: Annotated[int, ForeignKey(Local)]
            id: int = 0

        with pytest.raises(ConfigError, match=r"local names a foreign key and can't be\s+resolved"):
            db.collection(Lost)

    def test_other_names_that_can_not_be_resolved(self, db: memdb.Database) -> None:
        """Without a key they disturb nobody."""

        class Local:
            pass

        @dataclass
        class Found:
            local: Local
            customer: Annotated[int, ForeignKey("Customer")] = 0
            id: int = 0

        assert "customer" == reference(db.collection(Found)).field


@dataclass
class Box(Generic[T]):
    customer: T
    id: int = 0


class TestSetNone:
    """set_none is for what can become None."""

    @pytest.mark.parametrize("annotation", [int, Annotated[int, 1], CustomerId, tuple[str, int]])
    def test_refused(self, annotation: Any) -> None:
        """A field that can't be None is refused, with what to do."""
        with pytest.raises(
            ConfigError, match=r"set_none' can't make None\. Annotate it .* None, or"
        ):
            keys_of(Annotated[annotation, ForeignKey("Customer", "set_none")])

    @pytest.mark.parametrize(
        "annotation", [int | None, Any, object, T, list[int], set[int] | None, tuple[int, ...]]
    )
    def test_taken(self, annotation: Any) -> None:
        """Others are not: a list loses the identity."""

        assert 1 == len(keys_of(Annotated[annotation, ForeignKey("Customer", "set_none")]))

    def test_what_names_the_record(self, db: memdb.Database) -> None:
        """An identity never changes."""
        key = Annotated[int | None, ForeignKey("Customer", "set_none")]
        with pytest.raises(ConfigError, match="id names the record, so that on_delete='set_none'"):
            db.collection(make_dataclass("Made", [("id", key)]))
        with pytest.raises(ConfigError, match="code names the record"):
            db.collection(make_dataclass("Other", [("code", key)]), key="code")

    def test_of_several_classes(self, db: memdb.Database) -> None:
        """Each class that has the field must let it be None."""
        key: Any = Annotated[int | None, ForeignKey("Customer", "set_none")]
        one, two = with_field(key, "One"), with_field(int, "Two")
        with pytest.raises(ConfigError, match="customer is int, which"):
            db.collection(one | two, name="both")


class TestTarget:
    """Which collection a key leads to."""

    def test_a_class(self, db: memdb.Database) -> None:
        """A class leads to the collection that holds its records, whatever that is called."""
        orders, people = db.collection(Order), db.collection(Customer, name="people")
        customers = reference(orders)

        assert customers.leads_to(people._store)
        assert not customers.leads_to(orders._store)
        assert people._store is customers.target
        assert ("customer_id", ("customer_id",), False) == (
            customers.field,
            customers.path,
            customers.is_many,
        )
        assert "<Order.customer_id: ForeignKey(Customer, on_delete='restrict')>" == repr(customers)

    def test_another_database(self, db: memdb.Database) -> None:
        """Never to one of another database."""
        with memdb.open(None) as other:
            orders, customers = db.collection(Order), other.collection(Customer)

            assert not reference(orders).leads_to(customers._store)

    def test_several_with_the_class(self, db: memdb.Database) -> None:
        """Of several collections it is the one with the name of the class."""
        orders = db.collection(Order)
        old, late = db.collection(Customer, name="old"), db.collection(Customer, name="late")
        with pytest.raises(ConfigError, match="Customer, which may be the collection 'old' or 'la"):
            reference(orders).leads_to(old._store)
        with pytest.raises(ConfigError, match=r"Give the name of one .* ForeignKey\('old'\)"):
            orders.insert(Order(1))
        late.insert(Customer("x"))
        with pytest.raises(ConfigError, match="which may be the collection"):
            late.delete(1)
        customers = db.collection(Customer)

        assert reference(orders).leads_to(customers._store)
        assert not reference(orders).leads_to(old._store)
        late.delete(1)

    def test_a_name(self, db: memdb.Database) -> None:
        """A name leads to the collection that is called so, before any class of that name."""
        made = db.collection(with_field(Annotated[int, ForeignKey("Customer")]))
        people = db.collection(Customer, name="people")
        assert reference(made).leads_to(people._store)
        named = db.collection("Customer")

        assert reference(made).leads_to(named._store)
        assert not reference(made).leads_to(people._store)

    def test_itself(self, db: memdb.Database) -> None:
        """A class refers to itself by its name, whatever its collection is called."""
        staff = db.collection(Person, name="staff")

        assert reference(staff).leads_to(staff._store)

    def test_nothing(self, db: memdb.Database) -> None:
        """A target that was not asked for is an error when a reference is written."""
        orders = db.collection(Order)
        assert not reference(orders).leads_to(orders._store)
        message = "Order: customer_id refers to Customer, and no collection of that name or class"
        with pytest.raises(ConfigError, match=message):
            orders.insert(Order(1))
        with pytest.raises(ConfigError, match=message), db.transaction():
            orders.insert(Order(1))

        assert 0 == len(orders)

    def test_the_nearest(self, db: memdb.Database) -> None:
        """A slip in a name is recognised."""
        made = db.collection(with_field(Annotated[int, ForeignKey("Custmer", "restrict")]))
        db.collection(Customer)
        with pytest.raises(ConfigError, match=r"references are written\. Did you mean 'Customer'"):
            _ = reference(made).target

    def test_an_abstract_class(self, db: memdb.Database) -> None:
        """A base leads to the collection that was asked for with it."""
        animals = db.collection(Animal, subclasses=True)  # type: ignore[type-abstract]
        made = db.collection(with_field(Annotated[int, ForeignKey(Animal)]))

        assert reference(made).leads_to(animals._store)

    def test_a_generic_class(self, db: memdb.Database) -> None:
        """What it is generic over tells collections apart."""
        ints, texts = db.collection(Box[int], name="ints"), db.collection(Box[str], name="texts")
        made = db.collection(with_field(Annotated[int, ForeignKey(Box[int])]))

        assert "ForeignKey(Box[int])" == repr(reference(made).key)
        assert reference(made).leads_to(ints._store)
        assert not reference(made).leads_to(texts._store)

    def test_a_typed_dict(self, db: memdb.Database) -> None:
        """A TypedDict leads to its collection of dicts, and not to others."""
        plain, typed = db.collection("plain"), db.collection(Typed)
        made = db.collection(with_field(Annotated[int, ForeignKey(Typed)]))

        assert reference(made).leads_to(typed._store)
        assert not reference(made).leads_to(plain._store)

    @pytest.mark.parametrize(
        ("annotation", "key", "text"),
        [
            (str, None, "customer is annotated str, and the records of Target are named by int."),
            (str | bytes, None, r"annotated str \| bytes,"),
            (tuple[int, int], None, r"annotated tuple\[int, int\]"),
            (list[str], None, "annotated str,"),
            (int, "code", "are named by str. Annotate it str, or leave the foreign key out."),
            (str, ("code", "id"), "are named by tuple."),
        ],
    )
    def test_types_that_do_not_fit(
        self, db: memdb.Database, annotation: Any, key: Any, text: str
    ) -> None:
        """Where no value could be an identity, the later of the two collections is refused."""
        source = with_field(Annotated[annotation, ForeignKey("Target")])
        target = make_dataclass("Target", [("code", str), ("id", int, 0)])
        db.collection(target, key=key)
        with pytest.raises(ConfigError, match=text):
            db.collection(source)
        with memdb.open(None) as other:
            other.collection(source)
            with pytest.raises(ConfigError, match=text):
                other.collection(target, key=key)

    @pytest.mark.parametrize(
        ("annotation", "key"),
        [
            (CustomerId, None),
            (int | str, None),
            (Any, None),
            (Any, "code"),
            (T, "code"),
            (str, "code"),
            (tuple[str, int], ("code", "id")),
            (list[tuple[str, int]], ("code", "id")),
            (int, "any"),
            (int, "missing"),
        ],
    )
    def test_types_that_may_fit(self, db: memdb.Database, annotation: Any, key: Any) -> None:
        """Others are not."""
        fields: list[Any] = [("code", str), ("any", Any, None), ("id", int, 0)]
        target = "Target" if key == "missing" else make_dataclass("Target", fields)
        found = db.collection(target, key=key)
        made = db.collection(with_field(Annotated[annotation, ForeignKey("Target")]))

        assert reference(made).leads_to(found._store)


class Animal(ABC):
    @abstractmethod
    def sound(self) -> str:
        """Return what it says."""


@dataclass
class Cat(Animal):
    name: str
    id: int = 0

    def sound(self) -> str:
        """Return what it says."""
        return "miaow"


class Typed(TypedDict):
    name: str


@dataclass
class Person:
    boss_id: Annotated[int | None, ForeignKey("Person", "cascade")] = None
    id: int = 0


def link(name: str, **targets: str) -> Any:
    """Return a class whose fields are keys: target and, behind a space, what is done."""
    fields: list[Any] = []
    for field, target in targets.items():
        to, _, on_delete = target.partition(" ")
        key: Final = ForeignKey(to, on_delete or "cascade")  # type: ignore[arg-type]
        fields.append((field, Annotated[int | None, key], None))
    return make_dataclass(name, [*fields, ("id", int, 0)])


class TestCircles:
    """Cascades that go round are refused when the last of the collections is asked for."""

    def test_two(self, db: memdb.Database) -> None:
        """The message names the keys."""
        db.collection(link("A", b="B"))
        with pytest.raises(
            ConfigError,
            match=r"B: the foreign keys B\.a, A\.b cascade in a circle, so that one deletion could",
        ):
            db.collection(link("B", a="A"))

        assert ["A"] == list(db._engine.stores)
        db.collection(link("B", a="A restrict"))

    @pytest.mark.parametrize("last", range(4))
    def test_four(self, db: memdb.Database, last: int) -> None:
        """However long the circle is, and whatever leads to it or off."""
        names = ["A", "B", "C", "D"]
        classes = [
            link("A", b="B", x="X"),
            link("B", c="C", own="B"),
            link("C", a="A restrict", d="D"),
            link("D", x="X", a="A"),
        ]
        db.collection(link("X", y="Y"))
        db.collection(link("Y"))
        db.collection(link("Z", a="A", b="B"))
        for place in range(4):
            if place != last:
                db.collection(classes[place])
        with pytest.raises(ConfigError, match=rf"^{names[last]}: the foreign keys {names[last]}\."):
            db.collection(classes[last])

    @pytest.mark.parametrize("on_delete", ["restrict", "set_none", "ignore"])
    def test_what_is_none(self, db: memdb.Database, on_delete: str) -> None:
        """Other keys may go round, and a collection may cascade to itself."""
        a, b = link("A", b="B", own="A"), link("B", a=f"A {on_delete}", own="B")
        db.collection(a)
        db.collection(b)

    def test_two_ways(self, db: memdb.Database) -> None:
        """Two ways to one collection are no circle."""
        for cls in (link("A", b="B", c="C"), link("B", d="D"), link("C", d="D"), link("D")):
            db.collection(cls)


class TestIndexes:
    def test_of_its_own(self, db: memdb.Database) -> None:
        """A key is an index, named after its field, whatever on_delete says."""
        made = db.collection(
            make_dataclass(
                "Made",
                [
                    ("one", Annotated[int, ForeignKey(Customer)]),
                    ("many", Annotated[list[int], ForeignKey(Customer, "cascade")]),
                    ("other", int),
                ],
            )
        )

        assert {"one": HashIndex("one"), "many": SetIndex("many")} == dict(made.indexes)

    @pytest.mark.parametrize(
        "index",
        [
            HashIndex("customer_id"),
            HashIndex("customer_id", unique=True),
            HashIndex("customer_id", name="mine"),
        ],
        ids=repr,
    )
    def test_declared(self, db: memdb.Database, index: Any) -> None:
        """A declared one serves as well, unique or not."""

        assert [index] == list(db.collection(Order, indexes=[index]).indexes.values())

    @pytest.mark.parametrize(
        "index",
        [
            HashIndex("customer_id", where=memdb.F.note == "x", name="part"),
            HashIndex("customer_id", "note"),
            HashIndex("note"),
            SortedIndex("customer_id", name="sorted"),
            HashIndex("id"),
            HashIndex(key=lambda order: order.customer_id, name="made"),
        ],
        ids=repr,
    )
    def test_declared_ones_that_do_not_serve(self, db: memdb.Database, index: Any) -> None:
        """Any other index stands beside the key's own."""
        indexes = db.collection(Order, indexes=[index]).indexes

        assert [index, HashIndex("customer_id")] == list(indexes.values())

    def test_its_name_is_taken(self, db: memdb.Database) -> None:
        """Where another index has the name of the field, it has `_key` behind it."""
        orders = db.collection(
            Order, indexes=[SortedIndex("customer_id"), SortedIndex("note", name="customer_id_key")]
        )

        assert ["customer_id", "customer_id_key", "customer_id_key_key"] == list(orders.indexes)

    def test_asked_for_again(self, db: memdb.Database) -> None:
        """The collection is the same for whoever asks again, with the same indexes or without."""
        orders = db.collection(Order, indexes=[HashIndex("note")])

        assert orders is db.collection(Order) is db.collection(Order, indexes=[HashIndex("note")])
        with pytest.raises(ConfigError):
            db.collection(Order, indexes=[HashIndex("customer_id")])
        with pytest.raises(ConfigError, match="has an index 'customer_id' already"):
            orders.indexes.add(HashIndex("customer_id"))

    def test_odd_names(self, db: memdb.Database) -> None:
        """A key of a TypedDict may have any name."""
        odd = TypedDict("odd", {"a.b": Annotated[int, ForeignKey(Customer, "cascade")]})  # type: ignore[misc]
        db.collection(Customer).insert(Customer("x"))
        made: Any = db.collection(odd)
        made.insert({"a.b": 1})
        with pytest.raises(memdb.ForeignKeyError):
            made.insert({"a.b": 2})
        db.collection(Customer).delete(1)

        assert 0 == len(made)

    def test_is_used(self, db: memdb.Database) -> None:
        """Queries use it as any other index."""
        db.collection(Customer).insert_many([Customer("x"), Customer("y")])
        orders = db.collection(Order)
        orders.insert_many([Order(1), Order(2), Order(2)])
        explanation = orders.where(customer_id=1).explain()

        assert "hash index 'customer_id' for F.customer_id == 1: 1" == str(explanation.chosen)


@attrs.define
class AttrsOrder:
    customer: Annotated[int | None, ForeignKey("Customer")]


class StructOrder(msgspec.Struct):
    customer: Annotated[int, ForeignKey("Customer")] | None


class ModelOrder(pydantic.BaseModel):
    customer: Annotated[int, pydantic.Field(gt=0), ForeignKey("Customer")]
    default: int | None = None


class DerivedOrder(ModelOrder):
    own: list[Annotated[int, ForeignKey("Customer")]] = []


@pytest.mark.parametrize(
    ("cls", "fields"),
    [
        (AttrsOrder, ["customer"]),
        (StructOrder, ["customer"]),
        (ModelOrder, ["customer"]),
        (DerivedOrder, ["customer", "own"]),
    ],
)
def test_libraries(db: memdb.Database, cls: Any, fields: list[str]) -> None:
    """Keys are found in the classes of each library, derived ones too."""

    assert fields == [each.field for each in db.collection(cls)._store.references]
