"""Tables of our own making, with text, dates, codes and numbers, and ways to damage tables.

All cells are texts, as in a CSV file; missing cells are empty. Names, places and words are drawn
from short lists of this file.
"""

import numpy as np
import pandas as pd

FIRST = [
    "Anna",
    "Ben",
    "Carla",
    "David",
    "Eva",
    "Felix",
    "Greta",
    "Hugo",
    "Ida",
    "Jan",
    "Klara",
    "Leon",
    "Maria",
    "Nils",
    "Olga",
    "Paul",
    "Rosa",
    "Simon",
    "Tina",
    "Uwe",
    "Vera",
    "Walter",
    "Yara",
    "Zoe",
    "Amir",
    "Bella",
    "Chen",
    "Dina",
    "Emil",
    "Fatima",
    "Giorgio",
    "Hana",
    "Ivan",
    "Julia",
    "Kofi",
    "Lucia",
    "Mateo",
    "Noor",
    "Oscar",
    "Priya",
]
LAST = [
    "Smith",
    "Jones",
    "Miller",
    "Garcia",
    "Lopez",
    "Rossi",
    "Bianchi",
    "Dubois",
    "Martin",
    "Bernard",
    "Novak",
    "Kowalski",
    "Nowak",
    "Silva",
    "Santos",
    "Pereira",
    "Jensen",
    "Hansen",
    "Larsen",
    "Berg",
    "Virtanen",
    "Korhonen",
    "Tanaka",
    "Suzuki",
    "Kim",
    "Park",
    "Nguyen",
    "Tran",
    "Singh",
    "Patel",
    "Khan",
    "Ahmed",
    "Haddad",
    "Cohen",
    "Levi",
    "Okafor",
    "Mensah",
    "Diallo",
    "Moreau",
    "Keller",
    "Weber",
    "Fischer",
]
CITIES = {
    "Germany": ["Berlin", "Hamburg", "Leipzig", "Bremen"],
    "France": ["Paris", "Lyon", "Nantes", "Lille"],
    "Italy": ["Roma", "Milano", "Torino", "Bari"],
    "Spain": ["Madrid", "Sevilla", "Bilbao"],
    "Poland": ["Warszawa", "Gdynia", "Lublin"],
}
COUNTRIES = list(CITIES)
ITEMS = {
    "pen": 2, "notebook": 5, "lamp": 35, "chair": 120, "desk": 340, "monitor": 260, "cable": 9,
    "mouse": 25, "keyboard": 60, "headset": 85,
}  # fmt: skip
DRUGS = [
    "ibuprofen", "metformin", "aspirin", "atorvastatin", "amoxicillin", "insulin", "lisinopril",
]  # fmt: skip
COMPLAINTS = [
    "chest pain since morning", "fever and cough", "follow-up visit", "shortness of breath",
    "back pain after lifting", "headache, dizziness", "routine control", "knee swollen",
    "abdominal pain", "fatigue for two weeks",
]  # fmt: skip


def customers(n, seed):
    """People who buy: names, mail, address, dates, counts, amounts, phone, status."""
    rng = np.random.default_rng(seed)
    first, last = rng.choice(FIRST, n), rng.choice(LAST, n)
    country = rng.choice(COUNTRIES, n, p=[0.4, 0.25, 0.15, 0.1, 0.1])
    city = np.array([rng.choice(CITIES[c]) for c in country])
    digits = rng.integers(1, 999, n)
    mail = [f"{a}.{b}{k}@example.org".lower() for a, b, k in zip(first, last, digits, strict=True)]
    joined = np.datetime64("2015-01-01") + rng.integers(0, 2500, n)
    seen = joined + rng.integers(1, 900, n)
    n_orders = rng.poisson(6, n) + 1
    spent = np.round(n_orders * rng.lognormal(3.6, 0.5, n), 2)
    return _table(
        first_name=first, last_name=last, email=mail, city=city,
        post_code=[f"{k:05d}" for k in rng.integers(1000, 99999, n)], country=country,
        age=np.clip(rng.normal(45, 14, n).round(), 18, 95).astype(int), joined=joined,
        last_seen=seen, n_orders=n_orders, total_spent=[f"{v:.2f}" for v in spent],
        discount=rng.choice(["0", "5", "10", "15"], n, p=[0.6, 0.2, 0.15, 0.05]),
        phone=[f"+49 {a} {b}" for a, b in zip(rng.integers(150, 180, n),
                                              rng.integers(1000000, 9999999, n), strict=True)],
        status=rng.choice(["active", "inactive", "blocked"], n, p=[0.75, 0.22, 0.03]),
    )  # fmt: skip


def survey(n, seed):
    """Answers: Likert items of two scales, income, age, gaps."""
    rng = np.random.default_rng(seed)
    mood, work = rng.normal(size=(2, n))
    items = {}
    for k in range(10):
        level = (mood if k < 5 else work) + rng.normal(0, 0.8, n)
        items[f"q{k + 1:02d}"] = np.clip(np.round(3 + 1.1 * level), 1, 5).astype(int).astype(object)
    income = np.round(np.exp(rng.normal(10.4, 0.4, n)), -2).astype(int).astype(object)
    table = _table(
        respondent=[f"R{k:05d}" for k in rng.permutation(99999)[:n]],
        sex=rng.choice(["f", "m"], n), year=rng.integers(1940, 2004, n),
        region=rng.choice(["north", "south", "east", "west"], n), **items, income=income,
        hours=np.clip(rng.normal(36, 9, n).round(), 0, 70).astype(int),
    )  # fmt: skip
    for name in ["income", "q03", "q08", "hours"]:
        table.loc[rng.random(n) < 0.08, name] = ""
    return table


def orders(n, seed):
    """Orders with sums: gross = net + tax, net = quantity · price."""
    rng = np.random.default_rng(seed)
    item = rng.choice(list(ITEMS), n)
    price = np.round(np.array([ITEMS[k] for k in item]) * rng.normal(1, 0.05, n), 2)
    quantity = rng.integers(1, 12, n)
    net = np.round(price * quantity, 2)
    tax = np.round(0.19 * net, 2)
    placed = np.datetime64("2023-01-01") + rng.integers(0, 700, n)
    money = [[f"{v:.2f}" for v in part] for part in (price, net, tax, net + tax)]
    return _table(
        order=[f"A-{k:06d}" for k in rng.permutation(999999)[:n]], placed=placed,
        shipped=placed + rng.integers(1, 9, n), item=item, quantity=quantity, price=money[0],
        net=money[1], tax=money[2], gross=money[3],
        payment=rng.choice(["card", "invoice", "transfer"], n, p=[0.6, 0.3, 0.1]),
        warehouse=rng.choice(["W1", "W2", "W7"], n),
    )  # fmt: skip


def hospital(n, seed):
    """Hospital-like records with much text."""
    rng = np.random.default_rng(seed)
    born = np.datetime64("1930-01-01") + rng.integers(0, 29000, n)
    admitted = np.datetime64("2022-01-01") + rng.integers(0, 900, n)
    systolic = rng.normal(130, 17, n).round().astype(int)
    return _table(
        patient=[f"P{k:06d}" for k in rng.permutation(999999)[:n]],
        name=[f"{b}, {a}" for a, b in zip(rng.choice(FIRST, n), rng.choice(LAST, n), strict=True)],
        born=[pd.Timestamp(d).strftime("%d.%m.%Y") for d in born], sex=rng.choice(["F", "M"], n),
        ward=rng.choice(["A2", "B1", "B3", "ICU"], n, p=[0.4, 0.3, 0.25, 0.05]),
        admitted=admitted, complaint=rng.choice(COMPLAINTS, n),
        icd=[f"{a}{b:02d}.{c}" for a, b, c in zip(rng.choice(list("IJKMRE"), n),
                                                  rng.integers(0, 99, n), rng.integers(0, 9, n),
                                                  strict=True)],
        systolic=systolic, diastolic=(0.5 * systolic + rng.normal(16, 7, n)).round().astype(int),
        temperature=[f"{v:.1f}" for v in rng.normal(37.1, 0.7, n)], drug=rng.choice(DRUGS, n),
        dose=[f"{v} mg" for v in rng.choice([50, 100, 250, 500], n)],
        physician=["Dr. " + k for k in rng.choice(LAST[:12], n)],
    )  # fmt: skip


MIXED = {"customers": customers, "survey": survey, "orders": orders, "hospital": hospital}

_MAKERS = {
    "name": lambda rng, n: rng.choice(LAST, n),
    "code": lambda rng, n: [f"{a}{b:03d}" for a, b in zip(rng.choice(list("KLM"), n),
                                                          rng.integers(0, 999, n), strict=True)],
    "date": lambda rng, n: np.datetime64("2019-01-01") + rng.integers(0, 1500, n),
    "time": lambda rng, n: [f"{k // 60:02d}:{k % 60:02d}" for k in rng.integers(0, 1440, n)],
    "category": lambda rng, n: rng.choice(["low", "mid", "high"], n, p=[0.6, 0.3, 0.1]),
    "count": lambda rng, n: rng.negative_binomial(1, 0.1, n),
    "rare": lambda rng, n: np.where(rng.random(n) < 0.02, 5.5, rng.integers(1, 5, n)),
    "amount": lambda rng, n: [f"{v:.2f}" for v in rng.lognormal(4, 1.3, n)],
    "money": lambda rng, n: [f"${v:,.2f}" for v in rng.lognormal(7, 1, n)],
    "percent": lambda rng, n: [f"{v:.1f}%" for v in rng.beta(2, 5, n) * 100],
    "flag": lambda rng, n: rng.choice(["0", "1"], n, p=[0.9, 0.1]),
    "zeros": lambda rng, n: [f"{v:.3f}" for v in np.where(rng.random(n) < 0.5, 0,
                                                          rng.gamma(2, 3, n))],
    "normal": lambda rng, n: [f"{v:.3f}" for v in rng.normal(rng.normal(0, 50), 10, n)],
    "heavy": lambda rng, n: [f"{v:.2f}" for v in rng.standard_t(2, n) * 5],
    "id": lambda rng, n: [f"{k:07d}" for k in rng.permutation(9999999)[:n]],
}  # fmt: skip


def random_table(seed):
    """A clean table of 3 to 14 columns of random kinds, some of them with gaps."""
    rng = np.random.default_rng([17, seed])
    n, kinds = int(rng.integers(120, 1200)), rng.choice(list(_MAKERS), rng.integers(3, 15))
    columns = {f"{kind}_{k}": _MAKERS[kind](rng, n) for k, kind in enumerate(kinds)}
    table = _table(**columns)
    for name in table.columns[rng.random(len(kinds)) < 0.2]:
        table.loc[rng.random(n) < rng.uniform(0.01, 0.3), name] = ""
    return table


def damage(table, how, share, seed):
    """A copy with a share of the records damaged.

    How: "swap", "shift", "cycle" (of four cells) or "twice" (two swaps). Only cells with different
    values are swapped.
    """
    rng = np.random.default_rng([round(share * 1e6), seed])
    values = table.to_numpy(dtype=object)
    damaged, p = values.copy(), values.shape[1]
    for r in rng.choice(len(values), max(round(share * len(values)), 1), replace=False):
        for _ in range(30):
            order = np.arange(p)
            if how == "shift":
                start = rng.integers(0, p - 2)
                order[start:] = np.roll(order[start:], rng.choice([-1, 1]))
            else:
                places = rng.choice(p, 2 if how == "swap" else min(4, p), replace=False)
                order[places] = np.roll(places, 1)
                if how == "twice":
                    order[places] = places[::-1]
            if not np.all(same(values[r, order], values[r])):
                break
        damaged[r] = values[r, order]
    return pd.DataFrame(damaged, columns=table.columns)


def same(a, b):
    """Which cells are equal, missing ones included."""
    with np.errstate(invalid="ignore"):
        return (a == b) | ((a != a) & (b != b))


def _table(**columns):
    return pd.DataFrame({name: np.asarray(part).astype(str) for name, part in columns.items()})
