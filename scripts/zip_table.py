"""Writes the included table of ZIPs from the package `zipcodes`: `python -m scripts.zip_table`.

The package unpacks 40 MB to read its table, which takes longer than most commands; the file holds the eight columns
that Forager uses, in 0.4 MB. Run it when the package has a new version.
"""

import orjson
import zipcodes
import zstandard

from forager.pipelines.places.zips import SHIPPED

COLUMNS = ("zip_code", "state", "city", "county", "lat", "long", "zip_code_type", "active")


def main() -> None:
    rows = [raw for prefix in range(100) for raw in zipcodes.similar_to(f"{prefix:02}")]  # type: ignore[no-untyped-call]
    columns = {
        name: [(float(raw[name]) if raw[name] else None) if name in ("lat", "long") else raw[name] for raw in rows]
        for name in COLUMNS
    }
    SHIPPED.write_bytes(zstandard.compress(orjson.dumps(columns), 19))
    print(f"wrote {len(rows):,} ZIPs to {SHIPPED.name}, {SHIPPED.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
