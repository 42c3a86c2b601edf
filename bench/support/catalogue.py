"""A catalogue of many products, made by SQL: names of a few words, a description, brands, categories, prices."""

from bench.support.options import StoreKind

SHOPS, BRANDS, CATEGORIES = 200, 5_000, 400
KINDS = ("Table", "Lamp", "Chair", "Blanket", "Kettle", "Speaker", "Headphones", "Backpack", "Bottle", "Notebook")
LOOKS = ("Oak", "Walnut", "Steel", "Linen", "Wireless", "Folding", "Compact", "Classic", "Nordic", "Copper", "Velvet")
DAY_MS = 1_700_000_000_000


def statements(kind: StoreKind, products: int) -> list[str]:
    """Fill the empty tables of a store; nothing is analysed afterwards."""
    if kind == "sqlite":
        series = (
            f"(WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < {products}) SELECT n FROM s)"
        )
        hashed = "printf('%032x%032x', n * 2654435761 % 4294967291, n)"
        pick, json = "json_extract('{}', '$[' || ({} % {}) || ']')", ""
    else:
        series = f"(SELECT generate_series(1, {products})::bigint AS n) s"
        hashed = "lpad(to_hex(n * 2654435761 % 4294967291), 32, '0') || lpad(to_hex(n), 32, '0')"
        pick, json = "('{}'::jsonb ->> (({} % {})::int))", "::json"

    def word(words: tuple[str, ...], of: str) -> str:
        listed = ", ".join(f'"{each}"' for each in words)
        return pick.format(f"[{listed}]", of, len(words))

    looks, other, what = word(LOOKS, "n"), word(LOOKS, "(n / 11)"), word(KINDS, "(n / 3)")
    columns = {
        "id": "n",
        "url_hash": hashed,
        "url": "'https://shop-' || (n % 200) || '.example/p/' || n",
        "domain": f"'shop-' || (n % {SHOPS}) || '.example'",
        "product_name": f"{looks} || ' ' || {other} || ' ' || {what} || ' model' || (n % 9973)",
        "description": f"'This ' || {what} || ' of our ' || {other} || ' collection comes with a warranty of '"
        f" || (n % 5 + 1) || ' years and was designed in workshop w' || (n % 331) || 'x.'",
        "price": "(n * 7919 % 200000 + 99) * 100",
        "currency": "'EUR'",
        "availability": "CASE n % 5 WHEN 0 THEN 'out_of_stock' ELSE 'in_stock' END",
        "rating": "(n % 50) * 1000",
        "review_count": "n % 1000",
        "brand": f"'Brand ' || (n * 31 % {BRANDS})",
        "category": f"'Category ' || (n * 17 % {CATEGORIES})",
        "sku": "'SKU-' || n",
        "images": f"'[]'{json}",
        "metadata": f"'{{}}'{json}",
        "content_hash": hashed,
        "version": "1",
        "first_seen_at": f"{DAY_MS} + n",
        "last_seen_at": f"{DAY_MS} + n",
        "times_seen": "1",
        "changed_at": f"{DAY_MS} + n",
    }
    fill = f"INSERT INTO items ({', '.join(columns)}) SELECT {', '.join(columns.values())} FROM {series}"
    go_on = f"SELECT setval(pg_get_serial_sequence('items', 'id'), {products})"
    return [fill] if kind == "sqlite" else [fill, go_on]
