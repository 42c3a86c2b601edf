"""Trains the model that finds the main content of pages, and writes `extract/data/main_content.json`.

    python -m venv train && train/bin/pip install -e . lightgbm
    train/bin/python -m scripts.main_content_model

Pages of the shared data set (`kinds`, with their main text) are cut into units as for a user. A unit belongs to the
main content if most of its word triples occur in the annotated text. Only pages of sites that are not held out are
read; the threshold is chosen by cross-validation over sites, for the best word F1 of a page. Class names and other
words that describe a site's parts are features by group (`data/main_content.toml`), never by themselves, so that the
model cannot learn a site by heart.
"""

import importlib
import json
import re
from collections import Counter
from statistics import mean
from typing import Any

from bench.support.held_out import is_held_out
from bench.support.kind_pages import KnownPage, known_pages
from forager.extract.html.document import Document
from forager.extract.html.main_content import FEATURES, ContentUnit, describe
from forager.extract.html.main_text import page_hints
from forager.extract.html.visible_tree import visible_tree
from forager.extract.tables import FOLDER

lightgbm: Any = importlib.import_module("lightgbm")  # neither is a dependency of the package
np: Any = importlib.import_module("numpy")
TREES, LEAVES, RATE, FOLDS = 70, 12, 0.13, 5
WORD = re.compile(r"\w+")
SETTINGS = {
    "objective": "binary",
    "num_leaves": LEAVES,
    "learning_rate": RATE,
    "min_data_in_leaf": 60,
    "feature_fraction": 0.5,
    "bagging_fraction": 0.7,
    "bagging_freq": 1,
    "lambda_l2": 5,
    "verbose": -1,
    "seed": 7,
}


def main() -> None:
    pages = [page for page in known_pages("kinds") if not is_held_out(page.name) and page.expected["main_content"]]
    data = [(page, units_of(page)) for page in pages]
    rows, labels, weights, folds, places = [], [], [], [], []
    for at, (page, units) in enumerate(data):
        total = sum(unit.size for unit in units) or 1
        fold = hash_of(page.name) % FOLDS
        for place, (unit, label) in enumerate(zip(units, labelled(page, units), strict=True)):
            if label is not None:
                rows.append(unit.features)
                labels.append(label >= 0.5)
                weights.append((unit.size + 3) / total**0.5)
                folds.append(fold)
                places.append((at, place))
    features, wanted, weight, fold_of = map(np.array, (rows, labels, weights, folds))
    guessed = np.zeros(len(labels))
    for fold in range(FOLDS):
        inside = fold_of != fold
        guessed[~inside] = trained(features[inside], wanted[inside], weight[inside]).predict(
            features[~inside], raw_score=True
        )
    threshold = best_threshold(data, places, guessed)
    write(trained(features, wanted, weight), threshold)


def trained(features: Any, wanted: Any, weight: Any) -> Any:
    return lightgbm.train(SETTINGS, lightgbm.Dataset(features, wanted, weight=weight), TREES)


def units_of(page: KnownPage) -> list[ContentUnit]:
    document = Document(page.body, page.url)
    return describe(visible_tree(document.tree), page_hints(document))


def words(text: str) -> list[str]:
    return WORD.findall(text.lower())


def labelled(page: KnownPage, units: list[ContentUnit]) -> list[float | None]:
    """Return how much of each unit is in the annotated text. Up to three words count if they are a line of it, or stand
    in it and between units that do."""
    truth = words(page.expected["main_content"])
    whole = f" {' '.join(truth)} "
    triples = set(zip(truth, truth[1:], truth[2:], strict=False))
    lines = {" ".join(words(line)) for line in page.expected["main_content"].split("\n")}
    found: list[float | None] = []
    unsure = []
    for at, unit in enumerate(units):
        own = words(unit.text)
        if not own:
            found.append(None)
        elif len(own) > 3:
            own_triples = list(zip(own, own[1:], own[2:], strict=False))
            found.append(sum(triple in triples for triple in own_triples) / len(own_triples))
        else:
            text = " ".join(own)
            found.append(1.0 if text in lines else 0.0)
            if text not in lines and f" {text} " in whole:
                unsure.append(at)
    for at in unsure:
        before = next((each for each in reversed(found[max(0, at - 3) : at]) if each is not None), 0.0)
        after = next((each for each in found[at + 1 : at + 4] if each is not None), 0.0)
        found[at] = 1.0 if before >= 0.6 and after >= 0.6 else 0.0
    return found


def hash_of(name: str) -> int:
    return sum(name.partition("/")[0].encode())


def best_threshold(
    data: list[tuple[KnownPage, list[ContentUnit]]], places: list[tuple[int, int]], guessed: Any
) -> float:
    """Return the score from which units are kept, for the best mean word F1 of the pages."""
    pages: list[list[tuple[float, Counter[str]]]] = [[] for _ in data]
    for (at, place), value in zip(places, guessed, strict=True):
        pages[at].append((value, Counter(words(data[at][1][place].text))))
    truths = [Counter(words(page.expected["main_content"])) for page, _ in data]
    scores = {each / 10: mean(map(f1, pages, truths, [each / 10] * len(data))) for each in range(-10, 5)}
    threshold = max(scores, key=lambda each: scores[each])
    print(f"threshold {threshold}, word F1 by cross-validation {scores[threshold]:.4f}, {len(data)} pages")
    kinds = sorted({page.expected["page_kind"] for page, _ in data})
    for kind in kinds:
        own = [at for at, (page, _) in enumerate(data) if page.expected["page_kind"] == kind]
        print(f"  {kind:15} {mean(f1(pages[at], truths[at], threshold) for at in own):.4f}")
    return threshold


def f1(units: list[tuple[float, Counter[str]]], truth: Counter[str], least: float) -> float:
    own: Counter[str] = Counter()
    for value, found in units:
        if value >= least:
            own.update(found)
    common = sum((own & truth).values())
    return 2 * common / (own.total() + truth.total()) if common else 0.0


def write(booster: Any, threshold: float) -> None:
    dumped = booster.dump_model()
    trees = [nodes(tree["tree_structure"]) for tree in dumped["tree_info"]]
    stored = {"features": FEATURES, "threshold": threshold, "bias": 0.0, "trees": trees}
    (FOLDER / "main_content.json").write_text(json.dumps(stored, separators=(",", ":")) + "\n", encoding="utf-8")


def nodes(node: dict[str, Any]) -> Any:
    if "leaf_value" in node:
        return round(node["leaf_value"], 4)
    return [node["split_feature"], round(node["threshold"], 5), nodes(node["left_child"]), nodes(node["right_child"])]


if __name__ == "__main__":
    main()
