"""What an external search index holds of a product, in the fields of the seed."""

from forager.kit.indexed import Indexed, IndexedField
from forager.pipelines.products.records import Product

indexed = Indexed(
    Product,
    alias="products",
    number="product_id",
    fields=(
        IndexedField("product_id", "integer", "id"),
        IndexedField("product_name", "text", "product_name"),
        IndexedField("description", "text", "description"),
        IndexedField("brand", "keyword", "brand"),
        IndexedField("category", "keyword", "category"),
        IndexedField("domain_name", "keyword", "domain"),
        IndexedField("created_at", "date", "first_seen_at"),
        IndexedField("gone_at", "date", "gone_at"),
    ),
)
