# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes docs/errors.md of the codes in include/, of the misuses in this folder (misuses.py has their form), and of
errors.md.in, which has the rest.

page.py SOURCE_ROOT             writes the page
page.py SOURCE_ROOT --check     fails if the page is not what would be written

The rule of a code is the first part of its text, before the remedy; the index of the page lists it, and so does
docs/reference.md.
"""
import pathlib
import re
import sys
import textwrap

import misuses

sys.path.append(str(misuses.FOLDER.parent / 'support'))
from checks import write_or_check  # noqa: E402

PAGE = 'docs/errors.md'


def texts_of(root):
    """The text of every code of the headers, and complaints."""
    texts, where, faults, named = {}, {}, [], {}
    for path in sorted((root / 'include').rglob('*.hpp')):
        name = path.relative_to(root).as_posix()
        joined = re.sub(r'"\s*\n?\s*"', '', path.read_text(encoding='utf-8')) # adjacent string literals
        named |= {code: name for code in re.findall(r'TRI\d{4}', joined)}
        for text in re.findall(r'"(TRI\d{4}: [^"]*)"', joined):
            code = text[:7]
            if code in texts:
                faults.append(f'{name}: {code} is in {where[code]}, too; a code has one meaning')
            texts[code], where[code] = text, name
    faults += [f'{named[code]}: {code} has no text "{code}: ..."' for code in sorted(set(named) - set(texts))]
    return texts, faults


def cell(text):
    """A text as it stands in a table: outside of `code` it has no tags and no emphasis."""
    parts = re.split(r'(`[^`]*`)', text)
    parts[::2] = [re.sub(r'(<|\*(?=\S)|(?<=\S)\*)', r'\\\1', part) for part in parts[::2]]
    return ''.join(parts).replace('|', '\\|')


def rules_of(texts):
    """The rule of each code, in one line, for tables: the text up to its first colon or full stop, or all of it where
    that is the rule of several codes."""
    rules = {code: re.split(r'[:.] ', text[len(code) + 2:], maxsplit=1)[0] for code, text in texts.items()}
    rules = {code: rule if list(rules.values()).count(rule) == 1 else texts[code][len(code) + 2:]
             for code, rule in rules.items()}
    return {code: cell(rule) for code, rule in rules.items()}


def groups_of(root):
    """Codes by files of misuses, [(what they are about, [(code, anchor, rule)])], those files, the texts of the codes,
    and complaints."""
    sources = misuses.sources()
    if faults := [fault for source in sources for fault in source.faults]:
        return [], [], {}, faults
    texts, faults = texts_of(root)
    rules = rules_of(texts)
    sources = [source for source in sources if any(part.code for part in source.parts)]
    sources.sort(key=lambda source: min(part.code for part in source.parts if part.code))
    return [(source.about, [(part.code, part.name, rules.get(part.code, '')) for part in source.parts if part.code])
            for source in sources], sources, texts, faults


def comment(lines):
    """The comment that lines begin with, as text, and how many lines it takes."""
    taken = 0
    while taken < len(lines) and re.match(r'//( |$)', lines[taken]):
        taken += 1
    return '\n'.join(line[3:] for line in lines[:taken]), taken


def code_of(headers, lines):
    return '```cpp\n' + '\n'.join([*headers, *([''] if headers else []), *filter(None, lines)]) + '\n```\n'


def section(headers, part, text):
    """The section of a code: its text, why, what is wrong, and what is right."""
    why, begin = comment(part.lines[1:])
    begin += 1
    shown = {}
    for which, name in ('wrong', next(iter(part.misuses))), ('right', None):
        shown[which] = [line for line in list(part.chosen(name))[begin:-1] if not part.is_expected(line)]
    other = next((i for i, line in enumerate(part.lines) if line == '#else'), None)
    instead = comment(part.lines[other + 1:])[0] if other else ''
    if instead:
        for line in instead.split('\n'):
            shown['right'].remove(f'// {line}'.rstrip())
    return '\n'.join([
        f'## {part.code}\n', '```text', *textwrap.wrap(text, 120, break_long_words=False, break_on_hyphens=False), '```\n',
        *([why + '\n'] if why else []), *([] if why.endswith(':') else ['Wrong:\n']), code_of(headers, shown['wrong']),
        (instead or 'Right:') + '\n', code_of(headers, shown['right'])])


def page_of(root):
    """The page, and complaints about what it is made of."""
    groups, sources, texts, faults = groups_of(root)
    if not texts:
        return '', faults
    index = [row for about, entries in groups for row in (
        f'| | **{about}** |', *(f'| [{code}](#{anchor}) | {rule} |' for code, anchor, rule in entries))]
    documented, sections = {}, []
    for source in sources:
        if not source.about:
            faults.append(f'{source.path.name}: "// On the page: ..." is missing')
        for part in source.parts:
            if not part.code:
                continue
            if part.code not in texts:
                faults.append(f'{source.path.name}:{part.start}: {part.code} is in no header')
            elif part.code in documented:
                faults.append(f'{source.path.name}:{part.start}: {part.code} is in {documented[part.code]}, too')
            elif not part.misuses:
                faults.append(f'{source.path.name}:{part.start}: {part.code} has no misuse')
            else:
                faults += [f'{source.path.name}: {one.name} gives another code than {part.code}'
                           for one in part.misuses.values() if not one.fragments[0].startswith(part.code)]
                sections.append(section(source.headers, part, texts[part.code]))
            documented[part.code] = source.path.name
    faults += [f'tests/compile_fail: no namespace {code.lower()} has a misuse that gives {code}'
               for code in sorted(set(texts) - set(documented))]
    prelude = (misuses.FOLDER / 'prelude.hpp').read_text(encoding='utf-8').split('#pragma once\n')[1]
    page = (misuses.FOLDER / 'errors.md.in').read_text(encoding='utf-8')
    for mark, text in {'INDEX': '\n'.join(index) + '\n', 'PRELUDE': f'```cpp\n{prelude}```\n',
                       'SECTIONS': '\n'.join(sections)}.items():
        if page.count(f'@{mark}@\n') != 1:
            faults.append(f'errors.md.in: it needs one line @{mark}@')
        page = page.replace(f'@{mark}@\n', text)
    return page, faults


def main():
    root = pathlib.Path(sys.argv[1])
    page, faults = page_of(root)
    return write_or_check(root, {PAGE: page}, faults, 'tests/compile_fail/page.py')


if __name__ == '__main__':
    sys.exit(main())
