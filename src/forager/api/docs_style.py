"""The style sheet of `/docs`, light and dark. It refers to no external file."""

STYLE = """
:root {
  color-scheme: light dark;
  --paper: #fff; --panel: #f6f7f9; --line: #e1e4e8; --text: #1d2329; --faint: #5b6570; --link: #0b5cad;
  --get: #1a6fb5; --post: #1c7d45; --put: #8f5f00; --patch: #0d7377; --delete: #b3322a;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #14181d; --panel: #1c2128; --line: #30363d; --text: #dde3ea; --faint: #97a2ae; --link: #6cb2f7;
    --get: #6cb2f7; --post: #63c98b; --put: #e0b04c; --patch: #5cc5c9; --delete: #f0857d;
  }
}
* { box-sizing: border-box; }
html { scroll-behavior: smooth; scroll-padding-top: 1rem; }
@media (prefers-reduced-motion: reduce) { html { scroll-behavior: auto; } }
body { margin: 0; background: var(--paper); color: var(--text); font: 15px/1.55 system-ui, sans-serif; }
a { color: var(--link); text-decoration: none; }
a:hover { text-decoration: underline; }
code, pre { font-family: ui-monospace, "SF Mono", Menlo, Consolas, monospace; font-size: .88em; }
p code, td code, li code { background: var(--panel); border-radius: 4px; padding: .1em .3em; overflow-wrap: anywhere; }
nav { padding: 1.2rem; border-bottom: 1px solid var(--line); background: var(--panel); }
nav summary { font-weight: 600; }
nav h2 { margin: 1rem 0 .2rem; font-size: .78rem; letter-spacing: .06em; text-transform: uppercase; }
nav h2 a { color: var(--faint); }
nav ul { list-style: none; margin: 0; padding: 0; }
nav li a { display: block; padding: .12rem 0; color: var(--text); font-size: .9rem; }
main { max-width: 58rem; padding: 1.5rem 1.2rem 4rem; margin: 0 auto; }
h1 { margin: 0 0 .5rem; font-size: 1.7rem; }
h1 small { color: var(--faint); font-size: .9rem; font-weight: 400; }
section > h2 { margin: 3rem 0 .2rem; font-size: 1.35rem; text-transform: capitalize; }
section > p { color: var(--faint); margin: 0 0 1rem; }
article { border: 1px solid var(--line); border-radius: 8px; margin: 1rem 0; padding: .9rem 1.1rem; }
article:target { border-color: var(--link); box-shadow: 0 0 0 1px var(--link); }
article h3 { margin: 0; font-size: 1.02rem; }
article h3 a { color: inherit; }
article h4 { margin: 1.1rem 0 .3rem; color: var(--faint); font-size: .85rem; font-weight: 600; }
article p { margin: .5rem 0; }
.route { display: flex; flex-wrap: wrap; align-items: baseline; gap: .2rem .7rem; margin: .2rem 0 .5rem; }
.route code { overflow-wrap: anywhere; }
.method { font: 700 .78rem/1.5 ui-monospace, Menlo, Consolas, monospace; letter-spacing: .03em; }
.get { color: var(--get); } .post { color: var(--post); } .put { color: var(--put); }
.patch { color: var(--patch); } .delete { color: var(--delete); }
.open { color: var(--faint); font-size: .85rem; }
.table { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; }
th { text-align: left; color: var(--faint); font-weight: 500; font-size: .8rem; }
th, td { padding: .3rem .8rem .3rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
tr:last-child td { border-bottom: 0; }
td:first-child { white-space: nowrap; }
td:nth-child(2):not(:last-child) { color: var(--faint); min-width: 8rem; max-width: 16rem; overflow-wrap: anywhere; }
.answers td:first-child { width: 4rem; }
.must { color: var(--delete); font-size: .8rem; }
pre {
  margin: .3rem 0; padding: .7rem .9rem; background: var(--panel); border-radius: 6px;
  overflow-x: auto; max-height: 24rem; line-height: 1.45;
}
summary { cursor: pointer; color: var(--link); font-size: .9rem; }
article details { margin-top: .5rem; }
form label { display: block; margin: .5rem 0; font-size: .9rem; }
input, textarea, button { font: inherit; color: inherit; background: var(--paper); border: 1px solid var(--line);
  border-radius: 6px; padding: .3rem .5rem; }
form input { min-width: 16rem; max-width: 100%; }
textarea { display: block; width: 100%; font: .85rem/1.45 ui-monospace, Menlo, Consolas, monospace; }
button { cursor: pointer; background: var(--link); border-color: var(--link); color: var(--paper); }
output { display: block; margin-top: .6rem; white-space: pre-wrap; overflow-wrap: anywhere; max-height: 30rem;
  overflow-y: auto; font: .85rem/1.45 ui-monospace, Menlo, Consolas, monospace; }
output:not(:empty) { background: var(--panel); border-radius: 6px; padding: .7rem .9rem; }
@media (max-width: 40rem) {
  th { display: none; }
  tr, td { display: block; }
  tr { padding: .4rem 0; border-bottom: 1px solid var(--line); }
  td, td:nth-child(2):not(:last-child) { border: 0; padding: .05rem 0; max-width: none; }
  td:empty { display: none; }
}
@media (min-width: 60rem) {
  body { display: grid; grid-template-columns: 18rem 1fr; }
  nav { position: sticky; top: 0; height: 100vh; overflow-y: auto; border: 0; border-right: 1px solid var(--line); }
  main { width: 100%; padding: 2rem 2.5rem 6rem; margin: 0; }
}
"""
