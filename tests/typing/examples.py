"""What type checkers and editors must know; read by test_typing.py, never run.

A line that ends in ``# error: CODE`` must be refused with that code, all others be accepted.
"""

from dataclasses import dataclass
from typing import Any, Literal, assert_type

import msgspec

import memdb
from memdb import F


@dataclass
class Person:
    first_name: str
    age: int = 0
    id: int = 0


class City(msgspec.Struct):
    name: str
    id: int = 0


db = memdb.open("people.memdb", durability="synced")
memory = memdb.open(None)
assert_type(db, memdb.Database)
people = db.collection(Person, cache=10)
cities = db.collection(City, name="cities")
events = db.collection("events")
assert_type(people, memdb.Collection[Person])
assert_type(events, memdb.Collection[dict[str, Any]])

users = db.collection(City, name="users", key="name")
assert_type(users, memdb.KeyedCollection[City])
places = db.collection("places", key=("country", "code"))
assert_type(places, memdb.KeyedCollection[dict[str, Any]])
either = db.collection(Person | City, name="either", aliases={"Town": City})
later = db.collection(Person, version=2, upgrades={2: lambda stored: None})
assert_type(later, memdb.Collection[Person])
assert_type(db.migrate(dry_run=True).is_complete, bool)
assert_type(memdb.schema(db).collections["users"].forms[0].fields, dict[str, str])

# Natural keys may be of any type.
assert_type(users["Rome"], City)
assert_type(users.get("Rome", None), City | None)
assert_type(places["fr", 1]["name"], Any)
users.update("Rome", name="Roma")
with users.edit("Rome") as city:
    assert_type(city, City)
del users["Rome"]

# Reading knows the class.
assert_type(people[1], Person)
assert_type(people[1].first_name, str)
assert_type(people.get(1), Person | None)
assert_type(people.get(1, "none"), Person | str)
assert_type(cities[1].name, str)
assert_type([person.age for person in people], list[int])
assert_type(dict(people.items()), dict[int, Person])
assert_type(people.ids(), list[int])
assert_type(people.find(F.age > 5), Person | None)
many = people.find_all(lambda person: person.age > 5, first_name="Ann")
assert_type(many, list[Person])
assert_type(people.count(), int)
assert_type(people.exists(age=5), bool)
assert_type(people.history(1)[0].record, Person | None)
assert_type(people.stats().live.count, int)
assert_type(1 in people, bool)

# Queries know what they give.
query = people.where(F.age > 5, lambda person: person.age < 9, first_name="Ann")
assert_type(query, memdb.Query[Person])
assert_type(people.query().order_by("-age", F.first_name).skip(1).limit(2), memdb.Query[Person])
assert_type(query.all(), list[Person])
assert_type([person.age for person in query], list[int])
assert_type(query.first(), Person | None)
assert_type(query.first("none"), Person | str)
assert_type(query.one(), Person)
assert_type(query.page(0, 20), memdb.Page[Person])
assert_type(query.page().items[0].first_name, str)
assert_type(query.after(query.page(take=5).cursor).count(), int)
assert_type(query.select("age", n=F.age + 1).all(), list[tuple[Any, ...]])
assert_type(query.select(name="first_name", into=City).one(), City)
assert_type(query.group_by("age").having(memdb.count_() > 1).all(), list[tuple[Any, ...]])
assert_type(query.to_dicts(), list[dict[str, Any]])
assert_type(query.update(age=F.age + 1), int)
query.update(lambda person: Person(person.first_name))
assert_type(query.delete(), int)

# Joined ones know what is in each slot.
left = query.join(cities, on=F.city)
assert_type(left, memdb.JoinedQuery[Person, City | None])
inner = query.join(cities.where(F.name == "Rome"), on=F.city, how="inner")
assert_type(inner, memdb.JoinedQuery[Person, City])
lists = query.join_many(City, back=F.mayor, where=F.name != "", as_="towns")
assert_type(lists, memdb.JoinedQuery[Person, tuple[City, ...]])
chained = inner.join_many(people, on=F.city.people).join(City, on=(F.age, F.at), as_="other")
assert_type(chained, memdb.JoinedQuery[Person, City, tuple[Person, ...], City | None])
of_dicts = query.join(events, on=F.age).join(events.where(), on=F.age, how="inner", as_="other")
assert_type(of_dicts, memdb.JoinedQuery[Person, dict[str, Any] | None, dict[str, Any]])
many_dicts = inner.join_many(places, on=F.city.people).join(events, on=F.age)
assert_type(
    many_dicts, memdb.JoinedQuery[Person, City, tuple[dict[str, Any], ...], dict[str, Any] | None]
)
nested = query.join_many(events, back=F.age, then=lambda q: q.join(cities, on=F.city))
assert_type(nested, memdb.JoinedQuery[Person, tuple[Any, ...]])
assert_type(query.join(inner, on=F.age, as_="nested"), memdb.JoinedQuery[Person, Any])
refined = left.where(F.city.name == "x").order_by("-age").skip(1).limit(2)
assert_type(refined, memdb.JoinedQuery[Person, City | None])
person, town = left.one()
assert_type(person, Person)
assert_type(town, City | None)
assert_type([each.name for _, each in inner], list[str])
assert_type(left.count(), int)
assert_type(left.exists(), bool)
assert_type(left.to_dicts(), list[dict[str, Any]])
assert_type(left.all()[0].city, Any)

# Writing takes the class only.
assert_type(people.insert(Person("Ann")), int)
assert_type(people.insert_many(Person(name) for name in "ab"), list[int])
outcome = people.put(Person("Ann", id=1)).outcome
assert_type(outcome, Literal["inserted", "updated", "unchanged"])
assert_type(people.update(1, first_name="Ann"), bool)
people.update(1, Person("Ann"))
people.update(1, lambda person: Person(person.first_name))
with people.edit(1) as copy:
    assert_type(copy, Person)
with db.transaction():
    del people[1]
events.insert({"anything": 1})

# Mistakes are found.
people.insert(City("Rome"))  # error: arg-type
people.insert({"first_name": "Ann"})  # error: arg-type
people.insert_many([City("Rome")])  # error: list-item
people.put(None)  # error: arg-type
people.update(1, City("Rome"))  # error: arg-type
people.update("1", first_name="Ann")  # error: arg-type
people.delete("1")  # error: arg-type
print(people["1"])  # error: index
print(people[1].frist_name)  # error: attr-defined
print(people.get(1).first_name)  # error: union-attr
people.find_all(lambda person: person.agee > 5)  # error: attr-defined
events.insert(Person("Ann"))  # error: arg-type
query.skip("1")  # error: arg-type
query.order_by(5)  # error: arg-type
query.update(5)  # error: arg-type
print(query.first().first_name)  # error: union-attr
query.join(cities, on=F.city, how="outer")  # error: call-overload
print(left.one()[1].name)  # error: union-attr
left.update(age=1)  # error: attr-defined
memdb.open("people.memdb", "w")  # error: arg-type
memdb.open(5)  # error: arg-type
db.collection(Person, cache=1.5)  # error: call-overload
db.flush(1)  # error: call-arg
