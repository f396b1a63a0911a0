"""Products with one info and twenty offers each: the tables that many read while others write.

The original's numbers of records and fields; what the fields hold is made up here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from benchmark.queries.fixture import NetRandom

PRODUCT_COUNT = 500
OFFERS_A_PRODUCT = 20
_UPDATES_A_RECORD = 5
_DATA_SEED = 42
_UPDATE_SEED = 123
_CENT = Decimal("0.01")
_COLORS = ("red", "green", "blue", "black")
_COUNTRIES = ("de", "fr", "it", "pl")


@dataclass(frozen=True, slots=True)
class Product:
    """A product; ``range`` is its identity once more, for a sorted index."""

    id: int
    range: int
    name: str
    brand: str
    category: str
    sku: str
    weight_g: int
    length_mm: int
    width_mm: int
    height_mm: int
    is_active: bool
    created: int
    offer_count: int
    stamp: int


@dataclass(frozen=True, slots=True)
class Info:
    """The one info of a product."""

    id: int
    product_id: int
    title: str
    subtitle: str
    description: str
    language: str
    origin: str
    material: str
    color: str
    warranty_months: int
    lead_time_days: int
    least_quantity: int
    most_quantity: int
    rating: float
    review_count: int
    is_fragile: bool
    is_returnable: bool
    updated: int
    stamp: int


@dataclass(frozen=True, slots=True)
class Offer:
    """One of the offers of a product."""

    id: int
    product_id: int
    seller_id: int
    seller: str
    sku: str
    currency: str
    price: Decimal
    list_price: Decimal
    shipping: Decimal
    tax: Decimal
    quantity: int
    delivery_days: int
    condition: str
    country: str
    is_active: bool
    updated: int
    stamp: int


CLASSES: dict[str, type[Any]] = {"products": Product, "infos": Info, "offers": Offer}


def make_tables(count: int = PRODUCT_COUNT) -> dict[str, list[Any]]:
    """Return ``count`` products, as many infos and twenty times as many offers."""
    random = NetRandom(_DATA_SEED)
    return {
        "products": [_product(number, random) for number in range(1, count + 1)],
        "infos": [_info(number, random) for number in range(1, count + 1)],
        "offers": [
            _offer(number, count, random) for number in range(1, count * OFFERS_A_PRODUCT + 1)
        ],
    }


def info_updates(infos: Sequence[Info]) -> list[list[Info]]:
    """Return five later states of each info: another lead time, another time."""
    random = NetRandom(_UPDATE_SEED)
    return [
        [
            replace(info, lead_time_days=random.below(60), updated=info.updated + number)
            for number in range(1, _UPDATES_A_RECORD + 1)
        ]
        for info in infos
    ]


def offer_updates(offers: Sequence[Offer]) -> list[list[Offer]]:
    """Return five later states of each offer: three other prices, another time."""
    random = NetRandom(_UPDATE_SEED)
    return [
        [
            replace(
                offer,
                price=_price(random),
                list_price=_price(random),
                shipping=_price(random),
                updated=offer.updated + number,
            )
            for number in range(1, _UPDATES_A_RECORD + 1)
        ]
        for offer in offers
    ]


def _product(number: int, random: NetRandom) -> Product:
    return Product(
        id=number,
        range=number,
        name=f"product {number}",
        brand=f"brand {number % 40}",
        category=f"category {number % 12}",
        sku=f"P-{number:06}",
        weight_g=random.below(20_000),
        length_mm=random.below(1_000),
        width_mm=random.below(1_000),
        height_mm=random.below(1_000),
        is_active=True,
        created=number,
        offer_count=OFFERS_A_PRODUCT,
        stamp=0,
    )


def _info(number: int, random: NetRandom) -> Info:
    return Info(
        id=number,
        product_id=number,
        title=f"title of {number}",
        subtitle=f"subtitle of {number}",
        description=f"what there is to say of product {number}",
        language="en",
        origin=_COUNTRIES[random.below(4)],
        material=f"material {random.below(30)}",
        color=_COLORS[random.below(4)],
        warranty_months=12 * random.below(5),
        lead_time_days=random.below(60),
        least_quantity=1,
        most_quantity=100,
        rating=random.below(500) / 100,
        review_count=random.below(10_000),
        is_fragile=number % 3 == 0,
        is_returnable=True,
        updated=0,
        stamp=0,
    )


def _offer(number: int, product_count: int, random: NetRandom) -> Offer:
    seller_id = 1 + random.below(200)
    return Offer(
        id=number,
        product_id=(number - 1) % product_count + 1,
        seller_id=seller_id,
        seller=f"seller {seller_id}",
        sku=f"O-{number:06}",
        currency="EUR",
        price=_price(random),
        list_price=_price(random),
        shipping=_price(random),
        tax=_price(random),
        quantity=random.below(1_000),
        delivery_days=1 + random.below(14),
        condition="new",
        country=_COUNTRIES[random.below(4)],
        is_active=True,
        updated=0,
        stamp=0,
    )


def _price(random: NetRandom) -> Decimal:
    return (1 + random.below(99_999)) * _CENT
