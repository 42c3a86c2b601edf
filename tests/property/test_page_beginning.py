"""Over any tag soup: a page of which only the beginning is parsed answers as the whole page does."""

from hypothesis import given, settings
from hypothesis import strategies as st

from forager.extract.html.document import Document, beginning_of
from tests.support.document_answers import answers

URL = "https://shop.example/p/7"
DATA = '{"@type":"Product","name":"Oak table","sku":"A7","offers":{"price":"12.50","priceCurrency":"EUR"}}'
LD = f"<script type='application/ld+json'>{DATA}</script>"
FILLER = "<p>Another table, $5.00</p>" * 120
PIECES = (
    "<html>|<html lang=de>|<head>|</head>|<body>|</body>|</html>|<frameset>|<frame>|</frameset>|<noframes>|</noframes>|"
    "<h1>|<h1 title='</h1>'>|<h1 title=|</h1>|</h1>|<h1>Oak table</h1>|<h1></h1>|<H1 class=a>Beech</H1>|<h2>|</h2>|"
    "<title>|</title>|<title>Oak table</title>|<title>Use <meta> well</title>|<!--|-->|<!-- <h1>x</h1> -->|--!>|"
    "<table>|<tr>|<td>|</td>|</tr>|</table>|<caption>|<template>|</template>|<svg>|</svg>|<math>|<desc>|<![CDATA[|]]>|"
    "<noscript>|</noscript>|<select>|<option>|</select>|<textarea>|</textarea>|<style>|</style>|<xmp>|</xmp>|<iframe>|"
    "</iframe>|<script>|</script>|<script>'<!--<script>'</script>|<script type='application/ld+json' id='</script>'>|"
    "<script type='application/ld+json'>|<script src='/a?b&amp;c' type=text/javascript></script>|<a href=/x>|</a>|<b>|"
    "</b>|<p>|</p>|<div>|</div>|<span title='|'>|\"|=|<form>|</form>|<button>|<object>|</object>|<br>|<plaintext>|"
    "<meta name=a content=b>|<meta name=a content=c>|<meta content='5 <meta > 4' name=d>|<me\0ta name=e content=f>|"
    "<meta property=og:title content='Oak table | Shop'>|<meta property=og:type content=product>|<base href=/de/>|"
    "<base target=_top>|<link rel=canonical href=/a>|<link rel=canonical href=/b>|<link rel=icon href=/c>| Oak | Beech "
).split("|")
TYPES = ("ld&plus;json", "l&#100;+json", "ld+j\0son", "LD+JSON")
ODD_DATA = tuple(f"<script type='application/{name}'>{DATA.replace('Oak', 'Elm')}</script>" for name in TYPES)
soup = st.lists(st.sampled_from((*PIECES, *ODD_DATA, LD)), max_size=8).map("".join)


@settings(max_examples=300, deadline=None, derandomize=True)  # the same in every run; a search is for a person to start
@given(soup, soup, soup)
def test_every_answer_is_that_of_the_whole_page(before: str, after: str, late: str) -> None:
    document = Document(f"{before}{LD}{after}{FILLER}{late}", URL, markup_first=True)
    if beginning_of(document.source, document.lowered, document.marks) is not None:
        assert answers(document) == answers(Document(document.source, URL))
