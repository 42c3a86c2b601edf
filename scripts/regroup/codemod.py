"""Move, merge and rename modules of src/forager by a mapping. usage: codemod.py TREE MAPPING.py [--write]

MAPPING.py defines
  MERGE  = {"forager.new.module": ["forager.old.a", "forager.old.b", ...], ...}   # a list of one is a move
  RENAME = {"forager.old.a:name": "new_name"}
  DOC    = {"forager.new.module": "docstring"}
  PACKAGES = {"forager.kit": "forager.sdk"}   # prefix moves, applied to modules without an entry in MERGE
"""
import ast, sys, re, pathlib, collections, subprocess, json

TREE = pathlib.Path(sys.argv[1]); WRITE = '--write' in sys.argv
ns: dict = {}
exec(pathlib.Path(sys.argv[2]).read_text(), ns)
MERGE = ns.get('MERGE', {}); RENAME = dict(ns.get('RENAME', {})); DOC = ns.get('DOC', {}); PACKAGES = ns.get('PACKAGES', {})
KEEP_STRINGS = set(ns.get('KEEP_STRINGS', ()))
SRC = TREE / 'src'
warnings = []
def warn(*a): warnings.append(' '.join(map(str, a)))

# ---------------------------------------------------------------- modules
def modname(p):
    parts = list(p.relative_to(SRC).with_suffix('').parts)
    if parts[-1] == '__init__': parts.pop()
    return '.'.join(parts)
mods = {modname(p): p for p in SRC.rglob('*.py')}
trees = {}
def parse(p):
    s = p.read_text(); return s, ast.parse(s)
dest = {}          # old module -> new module
for new, olds in MERGE.items():
    for o in olds:
        if o not in mods: warn('NO SUCH MODULE', o, 'for', new); continue
        if o in dest: warn('TWICE', o)
        dest[o] = new
for m in mods:
    if m not in dest:
        for a, b in sorted(PACKAGES.items(), key=lambda x: -len(x[0])):
            if m == a or m.startswith(a + '.'):
                dest[m] = b + m[len(a):]; break
        else: dest[m] = m
sources = collections.defaultdict(list)   # new -> [old] in given order
for new, olds in MERGE.items():
    sources[new] = [o for o in olds if o in mods]
for o, n in dest.items():
    if n not in MERGE:
        if sources[n]: warn('COLLISION of modules', n, sources[n], o)
        sources[n].append(o)
for new, olds in MERGE.items():
    if new in mods and new not in olds and dest[new] == new: warn('target exists and is not merged', new)
is_pkg = {m: p.name == '__init__.py' for m, p in mods.items()}

def top_defs(tree):
    out = {}
    def add(n, node): out.setdefault(n, node)
    for node in tree.body:
        for n in bound_here(node): add(n, node)
    return out
def bound_here(node):
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)): yield node.name
    elif isinstance(node, ast.Assign):
        for t in node.targets:
            for x in ast.walk(t):
                if isinstance(x, ast.Name): yield x.id
    elif isinstance(node, (ast.AnnAssign, ast.AugAssign)):
        if isinstance(node.target, ast.Name): yield node.target.id
    elif isinstance(node, ast.TypeAlias) if hasattr(ast, 'TypeAlias') else False: yield node.name.id
    elif isinstance(node, (ast.If, ast.Try, ast.With, ast.For)):
        for b in ('body', 'orelse', 'finalbody'):
            for c in getattr(node, b, []):
                if not isinstance(c, (ast.Import, ast.ImportFrom)): yield from bound_here(c)
        for h in getattr(node, 'handlers', []):
            for c in h.body: yield from bound_here(c)
text, tree, defs = {}, {}, {}
for m, p in mods.items():
    text[m], tree[m] = parse(p); defs[m] = top_defs(tree[m])

# ---------------------------------------------------------------- collisions
def eager_deps(o):
    """old modules in the same merge whose names o needs (top-level import of them, not under TYPE_CHECKING)"""
    out = set()
    for n in tree[o].body:
        if isinstance(n, ast.ImportFrom) and n.module:
            for a in n.names:
                if f'{n.module}.{a.name}' in mods: out.add(f'{n.module}.{a.name}')
                elif n.module in mods: out.add(n.module)
    return out
def order(olds):
    done, out = set(), []
    def visit(o, path):
        if o in done: return
        if o in path: return
        for d in [x for x in olds if x in eager_deps(o) and x != o]: visit(d, path | {o})
        done.add(o); out.append(o)
    for o in olds: visit(o, frozenset())
    return out
def same(a, b): return ast.dump(a) == ast.dump(b)
drop = collections.defaultdict(set)   # module -> names whose definition is dropped (identical to an earlier one)
def stem(m): return m.rsplit('.', 1)[-1]
def auto(m, name):
    s = stem(m)
    if name.startswith('__'): return None
    if name.startswith('_'):
        core = name[1:]
        return '_' + (s.upper() + '_' + core if core.isupper() else core + '_' + s if core.islower() or '_' in core else s.title().replace('_', '') + core)
    return s.upper() + '_' + name if name.isupper() else (name + '_' + s if name[0].islower() else s.title().replace('_', '') + name)
for new, olds in sources.items():
    if len(olds) < 2: continue
    seen = {}
    for o in order(olds):
        for name, node in defs[o].items():
            nn = RENAME.get(f'{o}:{name}', name)
            if nn in seen:
                oo, onode, oname = seen[nn]
                if same(node, onode) and not isinstance(node, (ast.If, ast.Try)):
                    drop[o].add(name); continue
                if f'{o}:{name}' in RENAME: warn('RENAME COLLIDES', o, name, nn); continue
                new_name = auto(o, name)
                RENAME[f'{o}:{name}'] = new_name
                warn(f'collision in {new}: "{o}:{name}": "{new_name}",   # also in {oo}')
                seen[new_name] = (o, node, name)
            else: seen[nn] = (o, node, name)
REEXPORT = {}
FLAT = set(ns.get('FLATTEN', ()))
for f in mods:
    for n in tree[f].body:
        if isinstance(n, ast.ImportFrom) and n.module in mods:
            for a in n.names:
                if f'{n.module}.{a.name}' not in mods: REEXPORT[(f, a.asname or a.name)] = (n.module, a.name)
def origin(m, name):
    seen = set()
    while (m, name) in REEXPORT and name not in defs[m] and (m, name) not in seen:
        seen.add((m, name)); m, name = REEXPORT[(m, name)]
    return m, name
def resolve(m, name):
    om, on = origin(m, name)
    if (om, on) == (m, name): return new_of(m, name)
    nm, nn = new_of(om, on)
    if m in FLAT or len(sources[dest[m]]) > 1 or not is_pkg[m]: return nm, nn
    return dest[m], nn if on == name else name
def new_of(m, name):
    """(new module, new name) of a symbol defined or visible in old module m"""
    return dest.get(m, m), RENAME.get(f'{m}:{name}', name)

# ---------------------------------------------------------------- scopes
FUN = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
COMP = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
def local_names(fn):
    out, glob = set(), set()
    if isinstance(fn, COMP):
        for g in fn.generators:
            for x in ast.walk(g.target):
                if isinstance(x, ast.Name): out.add(x.id)
        return out
    a = fn.args
    for x in [*a.posonlyargs, *a.args, *a.kwonlyargs, a.vararg, a.kwarg]:
        if x: out.add(x.arg)
    body = [fn.body] if isinstance(fn, ast.Lambda) else fn.body
    def visit(n):
        if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            out.add(n.name); return
        if isinstance(n, ast.Lambda) or isinstance(n, COMP):
            for c in ast.walk(n):
                if isinstance(c, ast.NamedExpr): out.add(c.target.id)
            return
        if isinstance(n, ast.Name) and isinstance(n.ctx, (ast.Store, ast.Del)): out.add(n.id)
        if isinstance(n, ast.ExceptHandler) and n.name: out.add(n.name)
        if isinstance(n, (ast.Global,)): glob.update(n.names)
        if isinstance(n, ast.MatchAs) and n.name: out.add(n.name)
        if isinstance(n, ast.MatchStar) and n.name: out.add(n.name)
        if isinstance(n, (ast.Import, ast.ImportFrom)):
            for al in n.names: out.add((al.asname or al.name).split('.')[0])
        for c in ast.iter_child_nodes(n): visit(c)
    for b in body: visit(b)
    return out - glob
def walk_names(tree):
    """yield (node, scopes) for each Name/Attribute/…; scopes = list of function local sets outermost first"""
    def rec(n, scopes):
        yield n, scopes
        if isinstance(n, FUN) or isinstance(n, COMP):
            loc = local_names(n)
            if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef)):
                for d in n.decorator_list: yield from rec(d, scopes)
                for x in [*n.args.defaults, *[d for d in n.args.kw_defaults if d]]: yield from rec(x, scopes)
                for x in [*n.args.posonlyargs, *n.args.args, *n.args.kwonlyargs, n.args.vararg, n.args.kwarg]:
                    if x and x.annotation: yield from rec(x.annotation, scopes)
                if n.returns: yield from rec(n.returns, scopes)
                for b in n.body: yield from rec(b, scopes + [loc])
            else:
                for c in ast.iter_child_nodes(n): yield from rec(c, scopes + [loc])
            return
        for c in ast.iter_child_nodes(n): yield from rec(c, scopes)
    yield from rec(tree, [])

# ---------------------------------------------------------------- edit one file
def edit(path, src, t, me=None):
    """me: old module name if this file is in src. Returns new text."""
    lines = src.split('\n')
    enc = [l.encode() for l in lines]
    starts = [0]
    for l in enc: starts.append(starts[-1] + len(l) + 1)
    blob = src.encode()
    def off(line, col): return starts[line - 1] + col
    edits = []   # (start, end, replacement)
    my_new = dest.get(me) if me else None
    # bindings at module level (or anywhere) by imports
    # For each import statement: compute new statement text + how references change
    name_sub = {}     # bound name -> new name (for plain symbols), scope: module-level imports
    mod_sub = {}      # bound name -> (old module) for module objects
    local_subs = []   # (function-level import) (node function?, ...): treat as file-wide too, with the same maps
    top = set(map(id, t.body))
    for b in t.body:
        if isinstance(b, ast.If):
            for c in b.body: top.add(id(c))
    module_lasts = collections.defaultdict(set); taken = set()
    for node in ast.walk(t):
        if isinstance(node, ast.ImportFrom) and node.module:
            for al in node.names:
                full = f'{node.module}.{al.name}'
                if full in mods and dest[full] != my_new: module_lasts[dest[full].rsplit('.', 1)[-1]].add(dest[full])
                elif full not in mods: taken.add(al.asname or al.name)
        elif isinstance(node, ast.Import):
            for al in node.names: taken.add((al.asname or al.name).split('.')[0])
        elif isinstance(node, ast.arg): taken.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store): taken.add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)): taken.add(node.name)
    for node in ast.walk(t):
        if me and isinstance(node, ast.ImportFrom) and id(node) not in top and (node.module or '').startswith('forager'):
            for al in node.names:
                f_ = f'{node.module}.{al.name}' if f'{node.module}.{al.name}' in mods else node.module
                if dest.get(f_) == my_new: warn('LAZY', me.replace('forager.',''), '->', f_.replace('forager.',''))
    for node in ast.walk(t):
        if isinstance(node, ast.Import):
            for al in node.names:
                if al.name.startswith('forager') and dest.get(al.name, al.name) != al.name:
                    warn('import statement by hand', path, al.name)
        if not isinstance(node, ast.ImportFrom) or node.level or not (node.module or '').startswith('forager'): continue
        out = []; changed = False
        for al in node.names:
            full = f'{node.module}.{al.name}'; bound = al.asname or al.name
            if full in mods and not (node.module in mods and al.name in defs[node.module] and not is_pkg[node.module]):
                newm = dest[full]; pkg, last = newm.rsplit('.', 1)
                merged = len(sources[newm]) > 1
                if newm == full and not merged:
                    out.append((node.module, al.name, al.asname)); mod_sub[bound] = (full, bound); continue
                changed = True
                if my_new == newm:
                    mod_sub[bound] = (full, None)      # becomes bare names
                else:
                    if al.asname and not merged: out.append((pkg, last, al.asname)); mod_sub[bound] = (full, al.asname)
                    else:
                        alias = last if last == bound or (last not in taken and module_lasts[last] == {newm}) else f'{pkg.rsplit(".", 1)[-1]}_{last}'
                        if last == bound and len(module_lasts[last]) > 1: alias = f'{pkg.rsplit(".", 1)[-1]}_{last}'
                        out.append((pkg, last, alias if alias != last else None)); mod_sub[bound] = (full, alias)
            elif node.module in mods:
                nm, nn = resolve(node.module, al.name)
                if (nm, nn) != (node.module, al.name): changed = True
                if my_new == nm:
                    changed = True
                    if nn != bound: name_sub[bound] = nn
                else:
                    if nn != al.name and not al.asname: name_sub[bound] = nn; out.append((nm, nn, None))
                    elif al.asname == nn: name_sub[bound] = nn; out.append((nm, nn, None))
                    else: out.append((nm, nn, al.asname))
            else:
                warn('unresolved import', path, full); out.append((node.module, al.name, al.asname))
        if changed:
            s, e = off(node.lineno, node.col_offset), off(node.end_lineno, node.end_col_offset)
            by = collections.OrderedDict()
            for m, n, a in out: by.setdefault(m, []).append(n + (f' as {a}' if a and a != n else ''))
            indent = ' ' * node.col_offset
            txt = ('\n' + indent).join(f'from {m} import ({", ".join(sorted(set(ns)))})' if len(ns) > 1 else f'from {m} import {ns[0]}' for m, ns in by.items())
            # keep trailing comment such as # noqa
            edits.append((s, e, txt if txt else '\x00DROP\x00'))
    # own definitions
    if me:
        for name in defs[me]:
            nn = RENAME.get(f'{me}:{name}', name)
            if nn != name: name_sub[name] = nn
    def resolves_to_module(name, scopes, fn_imports):
        for loc in scopes:
            if name in loc and name not in fn_imports: return False
        return True
    fn_imports = set()
    for node in ast.walk(t):
        if isinstance(node, ast.ImportFrom) and id(node) not in top:
            for al in node.names: fn_imports.add(al.asname or al.name)
    inner = {}
    for node, scopes in walk_names(t):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in mod_sub:
            if not resolves_to_module(node.value.id, scopes, fn_imports): continue
            full, obj = mod_sub[node.value.id]
            nn = RENAME.get(f'{full}:{node.attr}', node.attr)
            s = off(node.lineno, node.col_offset); e = off(node.end_lineno, node.end_col_offset)
            new = nn if obj is None else f'{obj}.{nn}'
            if blob[s:e].decode() != new: edits.append((s, e, new))
            inner[id(node.value)] = 1
            if obj is None and any(nn in loc for loc in scopes): warn('SHADOWED', path, node.lineno, nn)
        elif isinstance(node, ast.Name) and id(node) not in inner:
            if node.id in mod_sub and resolves_to_module(node.id, scopes, fn_imports):
                full, obj = mod_sub[node.id]
                if obj is None: warn('module object used in its own merge', path, node.lineno, node.id)
                elif obj != node.id: edits.append((off(node.lineno, node.col_offset), off(node.end_lineno, node.end_col_offset), obj))
            elif node.id in name_sub and resolves_to_module(node.id, scopes, fn_imports):
                nn = name_sub[node.id]
                if any(nn in loc for loc in scopes): warn('SHADOWED', path, node.lineno, node.id, '->', nn)
                edits.append((off(node.lineno, node.col_offset), off(node.end_lineno, node.end_col_offset), nn))
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and me and node in t.body and node.name in name_sub:
            s = off(node.lineno, node.col_offset); line_end = blob.index(b'(' if not isinstance(node, ast.ClassDef) else node.name.encode(), s)
            i = blob.index(node.name.encode(), s)
            edits.append((i, i + len(node.name.encode()), name_sub[node.name]))
        elif isinstance(node, ast.Global):
            for n in node.names:
                if n in name_sub: warn('global statement', path, node.lineno, n)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ('setattr', 'object') and len(node.args) >= 2 \
                and isinstance(node.args[0], ast.Name) and node.args[0].id in mod_sub and isinstance(node.args[1], ast.Constant):
            full, obj = mod_sub[node.args[0].id]; nn = RENAME.get(f'{full}:{node.args[1].value}')
            if nn: c = node.args[1]; edits.append((off(c.lineno, c.col_offset), off(c.end_lineno, c.end_col_offset), repr(nn)))
    def annotations(n):
        if isinstance(n, ast.arg) and n.annotation: yield n.annotation
        if isinstance(n, ast.AnnAssign): yield n.annotation
        if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef)) and n.returns: yield n.returns
        if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id == 'cast' and n.args: yield n.args[0]
    for node in ast.walk(t):
        for an in annotations(node):
            for k in ast.walk(an):
                if isinstance(k, ast.Constant) and isinstance(k.value, str):
                    v = re.sub(r'(?<![.\w])(\w+)', lambda m_: name_sub.get(m_.group(1), m_.group(1)), k.value)
                    if v != k.value: edits.append((off(k.lineno, k.col_offset), off(k.end_lineno, k.end_col_offset), '"' + v + '"'))
    # __all__
    for b_ in t.body:
        if isinstance(b_, ast.Assign) and isinstance(b_.targets[0], ast.Name) and b_.targets[0].id == '__all__':
            for k in ast.walk(b_.value):
                if isinstance(k, ast.Constant) and isinstance(k.value, str):
                    v = name_sub.get(k.value)
                    if not v and me:
                        om, on = origin(me, k.value); v = RENAME.get(f'{om}:{on}')
                    if v: edits.append((off(k.lineno, k.col_offset), off(k.end_lineno, k.end_col_offset), '"' + v + '"'))
    # strings
    for node in ast.walk(t):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith('forager.') and '\n' not in node.value and ' ' not in node.value:
            v = node.value
            if v in KEEP_STRINGS: continue
            m, colon, name = v.partition(':')
            new = v
            if m in mods:
                if colon: nm, nn = new_of(m, name); new = f'{nm}:{nn}'
                elif dest[m] != m: new = dest[m]; warn('string', path, node.lineno, v, '->', new)
            else:
                mm, _, nn0 = v.rpartition('.')
                if mm in mods and nn0 in defs[mm]: nm, nn = new_of(mm, nn0); new = f'{nm}.{nn}'
            if new != v:
                s, e = off(node.lineno, node.col_offset), off(node.end_lineno, node.end_col_offset)
                raw = blob[s:e].decode()
                if v in raw: edits.append((s, e, raw.replace(v, new)))
                else: warn('string by hand', path, node.lineno, v)
    if not edits: return src
    edits = sorted(set(edits)); res = bytearray(); pos = 0
    for s, e, r in edits:
        if s < pos: warn('overlap', path, blob[s:e]); continue
        res += blob[pos:s] + r.encode(); pos = e
    res += blob[pos:]
    text2 = res.decode()
    text2 = re.sub(r'^if TYPE_CHECKING:\n((?:[ \t]*\x00DROP\x00[^\n]*\n)+)(?![ \t]+\S)', '', text2, flags=re.M)
    text2 = re.sub(r'^[ \t]*\x00DROP\x00[^\n]*\n', '', text2, flags=re.M)
    return text2

# ---------------------------------------------------------------- merge
def split(src):
    """-> (docstring text or None, [import stmt texts], [type-checking import texts], body text)"""
    t = ast.parse(src); lines = src.split('\n'); cut = set(); imports = []; tc = []; doc = None
    for i, n in enumerate(t.body):
        if i == 0 and isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant) and isinstance(n.value.value, str):
            doc = n.value.value; cut.update(range(n.lineno - 1, n.end_lineno)); continue
        if isinstance(n, (ast.Import, ast.ImportFrom)):
            imports.append('\n'.join(lines[n.lineno - 1:n.end_lineno])); cut.update(range(n.lineno - 1, n.end_lineno))
        elif isinstance(n, ast.If) and isinstance(n.test, ast.Name) and n.test.id == 'TYPE_CHECKING' and not n.orelse and all(isinstance(c, (ast.Import, ast.ImportFrom)) for c in n.body):
            for c in n.body: tc.append('\n'.join(lines[c.lineno - 1:c.end_lineno]))
            cut.update(range(n.lineno - 1, n.end_lineno))
    first = min((n.lineno for n in t.body if (n.lineno - 1) not in cut), default=len(lines))
    body = '\n'.join(l for i, l in enumerate(lines) if i not in cut).strip('\n')
    return doc, imports, tc, body
import textwrap
def comment_of(doc):
    if any(l.strip().startswith(('-', '|', '`', '*')) or l.startswith('    ') for l in doc.strip().split('\n')[1:]): pass
    else:
        paras = [' '.join(p.split()) for p in re.split(r'\n\s*\n', doc.strip())]
        return '\n#\n'.join('\n'.join(textwrap.wrap(p, 120, initial_indent='# ', subsequent_indent='# ', break_long_words=False, break_on_hyphens=False)) for p in paras)
    return '\n'.join(('# ' + l.strip()).rstrip() for l in doc.strip().split('\n'))
def remove_defs(src, names):
    if not names: return src
    t = ast.parse(src); lines = src.split('\n'); cut = set()
    for i, n in enumerate(t.body):
        if any(x in names for x in bound_here(n)) and not isinstance(n, (ast.If, ast.Try)):
            start = min([n.lineno, *[d.lineno for d in getattr(n, 'decorator_list', [])]])
            cut.update(range(start - 1, n.end_lineno))
            nxt = t.body[i + 1] if i + 1 < len(t.body) else None
            if isinstance(nxt, ast.Expr) and isinstance(nxt.value, ast.Constant) and isinstance(nxt.value.value, str): cut.update(range(nxt.lineno - 1, nxt.end_lineno))
    return '\n'.join(l for i, l in enumerate(lines) if i not in cut)
result = {}
for new, olds in sources.items():
    edited = {o: remove_defs(edit(mods[o], text[o], tree[o], o), {RENAME.get(f'{o}:{x}', x) for x in drop[o]}) for o in olds}
    if len(olds) == 1:
        result[new] = edited[olds[0]]; 
        if new in DOC:
            doc, *_ = split(result[new]); result[new] = result[new].replace(doc, DOC[new], 1) if doc else f'"""{DOC[new]}"""\n\n' + result[new]
        continue
    parts = {o: split(edited[o]) for o in olds}
    main = olds[0]
    doc = DOC.get(new) or parts[main][0] or ''
    imports, tc, bodies = [], [], []
    ordered = order(olds)
    for o in ordered:
        d, im, t2, body = parts[o]; imports += im; tc += t2
        if body.strip():
            head = '' if o == main or not d else comment_of(d) + '\n\n\n'
            bodies.append(head + body)
    out = f'"""{doc}"""\n\n' + '\n'.join(dict.fromkeys(imports)) + '\n'
    if tc: out += '\nif TYPE_CHECKING:\n' + '\n'.join(dict.fromkeys(x if x.startswith('    ') else '    ' + x for x in tc)) + '\n'
    out += '\n\n' + '\n\n\n'.join(bodies) + '\n'
    result[new] = out
# bindings conflict in merged modules: imported names vs definitions
for new, olds in sources.items():
    if len(olds) < 2: continue
    try: t = ast.parse(result[new])
    except SyntaxError as e: warn('SYNTAX', new, e); continue
    b = collections.defaultdict(set)
    for n in t.body:
        if isinstance(n, ast.ImportFrom):
            for a in n.names: b[a.asname or a.name].add((n.module, a.name))
        elif isinstance(n, ast.Import):
            for a in n.names: b[(a.asname or a.name).split('.')[0]].add(('import', (a.asname and a.name) or a.name.split('.')[0]))
        else:
            for x in bound_here(n): b[x].add(('def', x))
    for k, v in b.items():
        if len(v) > 1: warn('BINDING CONFLICT', new, k, sorted(v))
# cycles
graph = {}
for new in result:
    deps = set()
    try: t = ast.parse(result[new])
    except SyntaxError: continue
    for n in t.body:
        if isinstance(n, ast.ImportFrom) and n.module:
            for a in n.names:
                if f'{n.module}.{a.name}' in result: deps.add(f'{n.module}.{a.name}')
                elif n.module in result: deps.add(n.module)
    graph[new] = deps - {new}
def sccs(g):
    idx, low, st, on, out, c = {}, {}, [], set(), [], [0]
    sys.setrecursionlimit(10000)
    def go(v):
        idx[v] = low[v] = c[0]; c[0] += 1; st.append(v); on.add(v)
        for w in g[v]:
            if w not in g: continue
            if w not in idx: go(w); low[v] = min(low[v], low[w])
            elif w in on: low[v] = min(low[v], idx[w])
        if low[v] == idx[v]:
            comp = []
            while True:
                w = st.pop(); on.discard(w); comp.append(w)
                if w == v: break
            if len(comp) > 1: out.append(comp)
    for v in g:
        if v not in idx: go(v)
    return out
for comp in sccs(graph):
    warn('CYCLE', [c.replace('forager.','') for c in comp])
    for o in mods:
        if dest[o] in comp:
            for d in sorted(eager_deps(o)):
                if dest.get(d) in comp and dest[d] != dest[o]: warn('   EDGE', dest[o].rsplit('.',1)[-1], '->', dest[d].rsplit('.',1)[-1], '  via', o.replace('forager.',''), '->', d.replace('forager.',''))

for f in ns.get('FLATTEN', ()):
    if dest[f] in result and sources[dest[f]] == [f]:
        result[dest[f]] = '"""' + (split(text[f])[0] or '') + '"""\n'
for k, v in ns.get('INITS', {}).items():
    if 'forager.' + k in result: warn('INIT EXISTS', k)
    result['forager.' + k] = f'"""{v}"""\n'
seenc = collections.defaultdict(list)
for m, s_ in result.items():
    for n in ast.parse(s_).body:
        if isinstance(n, ast.ClassDef) and not n.name.startswith('_'): seenc[n.name].append(m)
for k, v in seenc.items():
    if len(v) > 1: warn('TWIN CLASS', k, v)
others = {}
for d in ('tests', 'bench', 'scripts', 'docs'):
    for p in (TREE / d).rglob('*.py'):
        s, t = parse(p); r = edit(p, s, t)
        if r != s: others[p] = r
# textual mentions of paths in docs, comments and configuration
paths = {}
for o, n in dest.items():
    if o != n:
        a = str(mods[o].relative_to(SRC / 'forager')) if mods[o].is_relative_to(SRC / 'forager') and o != 'forager' else None
        if a and not is_pkg[o]: paths[a] = n.replace('forager.', '', 1).replace('.', '/') + '.py'
rx = re.compile(r'(?<![\w/.])(?:src/forager/)?(' + '|'.join(map(re.escape, sorted(paths, key=len, reverse=True))) + r')(?![\w])') if paths else None
def fix_paths(s): return rx.sub(lambda m: m.group(0).replace(m.group(1), paths[m.group(1)]), s) if rx else s
IMP = re.compile(r'^([ \t>]*)from (forager[\w.]*) import (\([^)]*\)|[^\n(]+)$', re.M)
def fix_block(s):
    subs = {}
    def one(m):
        mod, names = m.group(2), m.group(3)
        comment = ''
        if '#' in names and '(' not in names: names, _, comment = names.partition('#'); comment = '  # ' + comment.strip()
        out = collections.OrderedDict()
        for n in names.strip('() \n').replace('\n', ' ').split(','):
            n = n.strip()
            if not n: continue
            name, _, asname = n.partition(' as ')
            full = f'{mod}.{name}'
            if full in mods:
                nm = dest[full]; p, l = nm.rsplit('.', 1); out.setdefault(p, []).append(l + (f' as {asname}' if asname else '' if l == name else f' as {name}'))
            elif mod in mods:
                nm, nn = resolve(mod, name)
                out.setdefault(nm, []).append(nn + (f' as {asname}' if asname else ''))
                if nn != name and not asname: subs[name] = nn
            else: return m.group(0)
        return '\n'.join(f'{m.group(1)}from {k} import {", ".join(v)}' for k, v in out.items()) + comment
    s = IMP.sub(one, s)
    for a, b in subs.items(): s = re.sub(r'(?<![\w.])' + a + r'(?!\w)', b, s)
    return s
DOT = re.compile(r'(?<![\w./-])forager(?:\.\w+)+')
def fix_dotted(s):
    def one(m):
        v = m.group(0)
        if v in KEEP_STRINGS: return v
        parts = v.split('.')
        for i in range(len(parts), 1, -1):
            k = '.'.join(parts[:i])
            if k in KEEP_STRINGS: return v
            if k in mods: return '.'.join([dest[k], *parts[i:]])
        return v
    return DOT.sub(one, s)
def fix_md(s):
    s = fix_dotted_outside(s)
    return re.sub(r'^```.*?^```', lambda m: fix_block(m.group(0)), s, flags=re.M | re.S)
def fix_dotted_outside(s):
    return ''.join(x if i % 2 else fix_dotted(x) for i, x in enumerate(re.split(r'(^```.*?^```)', s, flags=re.M | re.S)))
def fix_strings(s):
    # multi-line string constants that contain import lines
    try: t = ast.parse(s)
    except SyntaxError: return s
    blob = s.encode(); starts = [0]
    for l in s.split('\n'): starts.append(starts[-1] + len(l.encode()) + 1)
    ed = []
    for n in ast.walk(t):
        if isinstance(n, ast.Constant) and isinstance(n.value, str) and 'from forager' in n.value or isinstance(n, ast.JoinedStr) and 'from forager' in ast.unparse(n):
            a, b = starts[n.lineno - 1] + n.col_offset, starts[n.end_lineno - 1] + n.end_col_offset
            raw = blob[a:b].decode(); new = fix_block(raw)
            if new == raw and 'import' in raw: 
                new2 = re.sub(r'from (forager[\w.]+) import (\w+)', lambda m: 'from %s import %s' % resolve(m.group(1), m.group(2)) if m.group(1) in mods and f'{m.group(1)}.{m.group(2)}' not in mods else m.group(0), raw)
                new = new2
            if new != raw: ed.append((a, b, new))
    res = bytearray(); pos = 0
    for a, b, r in sorted(set(ed)):
        if a < pos: continue
        res += blob[pos:a] + r.encode(); pos = b
    return (res + blob[pos:]).decode()
lens = sorted(len(v.split('\n')) for v in result.values())
print('files', len(result), 'median', lens[len(lens)//2], 'lines', sum(lens))
for w in warnings: print(w)
if WRITE:
    for m, p in mods.items():
        n = dest[m]
        p.unlink()
    # data files of moved packages
    for a, b in PACKAGES.items():
        src_dir = SRC / a.replace('.', '/'); dst = SRC / b.replace('.', '/')
        if src_dir.exists():
            for f in src_dir.rglob('*'):
                if f.is_file() and '__pycache__' not in f.parts and f.suffix != '.py':
                    tgt = dst / f.relative_to(src_dir); tgt.parent.mkdir(parents=True, exist_ok=True); f.rename(tgt)
    for n, s in result.items():
        pkg = any(is_pkg[o] for o in sources.get(n, []) if len(sources[n]) == 1) or any(x.startswith(n + '.') for x in result)
        p = SRC / (n.replace('.', '/') + ('/__init__.py' if pkg else '.py'))
        p.parent.mkdir(parents=True, exist_ok=True); p.write_text(fix_paths(s))
    for p, s in others.items(): p.write_text(s)
    for d in ('docs', 'tests', 'bench', 'scripts', 'src', '.'):
        for p in ((TREE / d).rglob('*') if d != '.' else TREE.glob('*')):
            if p.suffix in ('.md', '.py', '.toml', '.ini', '.cfg', '.yml') and p.is_file() and '.venv' not in p.parts and '__pycache__' not in p.parts:
                s = p.read_text(); r = fix_paths(s)
                if p.suffix == '.md': r = fix_md(r)
                if p.suffix == '.py': r = fix_strings(r)
                if p.suffix == '.py' and 'forager.' in r and p.parts[-1] != 'features.py':
                    r2 = []
                    for l in r.split('\n'): r2.append(l if l.lstrip().startswith(('from ', 'import ')) else re.sub(r'["`\s](forager(?:\.\w+){2,})', lambda m: m.group(0).replace(m.group(1), fix_dotted(m.group(1))), l))
                    r = '\n'.join(r2)
                if r != s: p.write_text(r)
    for d in sorted((x for x in SRC.rglob('*') if x.is_dir()), key=lambda x: -len(x.parts)):
        if d.name == '__pycache__': continue
        if not [f for f in d.iterdir() if f.name != '__pycache__']:
            subprocess.run(['rm', '-rf', str(d)])
