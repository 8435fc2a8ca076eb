# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reads the declarations of a header and the comments above them: a scanner, no compiler. It knows this tree's style.

A declaration belongs to the comment of /// lines directly above it. One without a comment that follows another without
an empty line between them belongs to that one's comment, too. A comment ///< belongs to the declaration before it.
"""
import dataclasses
import re

TOKEN = re.compile(r'''
    (?P<after>///<[^\n]*) | (?P<doc>///[^\n]*) | (?P<comment>//[^\n]*|/\*.*?\*/)
  | (?P<macro>^[ \t]*\#(?:[^\n\\]|\\.|\\\n)*)
  | (?P<string>R"\((?:.|\n)*?\)"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+')
  | (?P<line>\n) | (?P<space>[ \t]+)
  | (?P<word>[A-Za-z_]\w*) | (?P<number>\.?\d(?:'?[\w.]|[eEpP][+-])*) | (?P<sign>::|\.\.\.|->|&&|\|\||<=>|[<>=!+*/%&|^-]=|.)
''', re.X | re.M | re.S)
CLOSING = {'(': ')', '[': ']', '{': '}'}
KEYS = ('struct', 'class', 'union', 'enum')


@dataclasses.dataclass
class Declaration:
    kind: str  # namespace, struct, enum, concept, using, function, variable
    name: str
    doc: str
    line: int
    parameters: list  # of its template
    words: list  # its tokens, without template, comments and body
    members: list
    public: bool = True
    joins: bool = False  # the comment is that of the declaration before
    special: bool = False  # a specialisation, which has its template's comment
    head: list = dataclasses.field(default_factory=list)  # the tokens of its template
    body: bool = False  # it is defined, not only declared

    def signature(self):
        """The name as a user writes it."""
        if self.kind == 'function':
            return self.name if self.name.startswith('operator') else f'{self.name}()'
        return self.name + (f'<{", ".join(self.parameters)}>' if self.parameters else '')

    def data(self):
        """The data members of a struct."""
        return [one for one in self.members if one.kind == 'variable' and 'static' not in one.words]

    def is_aggregate(self):
        """True for a struct with data members, which designated initialisers name."""
        return (self.kind == 'struct' and not self.special and self.data() != []
                and all(one.public for one in self.data())
                and not any(one.kind == 'function' and one.name == self.name for one in self.members))

    def type_and_default(self):
        """Type and initialiser of a variable, as text; nothing for an initialiser that is not there."""
        words = self.words
        pointer = next((at for at in range(len(words) - 2) if words[at:at + 3] == ['(', '*', self.name]), None)
        end = 0 # behind the name, and behind the bounds of an array or the parameters of a function
        while end < len(words) and words[end] not in ('=', '{'):
            end = behind(words, end, words[end]) if words[end] in CLOSING else (
                behind(words, end) if words[end] == '<' else end + 1)
        name = pointer + 2 if pointer is not None else max(
            (at for at in range(end) if words[at] == self.name and words[at + 1:at + 2] != ['::']), default=end)
        kind = joined([*words[:name], *words[name + 1:end]])
        kind = re.sub(r'\btypename ', '', re.sub(r'\btrireme::', '', re.sub(r'([&*])(?=\w)', r'\1 ', kind)))
        kind = re.sub(r'^(\S+)\(\*\)', r'\1 (*)', kind)
        return kind, joined(words[end + (words[end:end + 1] == ['=']):])


def tokens_of(text):
    line = 1
    for found in TOKEN.finditer(text):
        if found.lastgroup != 'space':
            yield found.lastgroup, found[0], line
        line += found[0].count('\n')


def joined(words):
    """Tokens as a formatter would write them, more or less."""
    text = ''
    for word in words:
        if text and re.match(r'\w', word) and re.search(r'[\w>]$', text) or word in ('=', '?', ':', '&&', '||'):
            text += ' '
        text += word + (' ' if word in (',', '=', '?', ':', '&&', '||') else '')
    return re.sub(r' +', ' ', text).strip()


def behind(words, at, opening='<'):
    """The index behind the bracket that closes the one at `at`."""
    closing, depth = {'<': '>', **CLOSING}[opening], 0
    while at < len(words):
        if words[at] in CLOSING and words[at] != opening:
            at = behind(words, at, words[at])
            continue
        depth += (words[at] == opening) - (words[at] == closing)
        at += 1
        if depth == 0:
            break
    return at


def split_at_commas(words):
    parts, at, begin = [], 0, 0
    while at < len(words):
        if words[at] in CLOSING or words[at] == '<' and at > 0 and re.match(r'\w', words[at - 1]):
            at = behind(words, at, words[at])
            continue
        if words[at] == ',':
            parts.append(words[begin:at])
            begin = at + 1
        at += 1
    return [*parts, words[begin:]] if words else []


def parameter_name(words):
    words = words[:words.index('=')] if '=' in words else words
    return words[-1] + '...' * ('...' in words)


def without_template(words):
    """The names of the template's parameters, and the tokens without it, its requires-clause and attributes."""
    parameters = []
    while words:
        if words[0] == 'template':
            end = behind(words, 1)
            parameters, words = [parameter_name(part) for part in split_at_commas(words[2:end - 1])], words[end:]
        elif words[0] == 'requires':
            words = words[1:]
            while words:
                while words and words[0] in ('!', 'requires'):
                    words = words[1:]
                if words and words[0] in CLOSING:
                    words = words[behind(words, 0, words[0]):]
                    if words and words[0] == '{':
                        words = words[behind(words, 0, '{'):]
                else:
                    words = words[1:]
                    while words and (words[0] in ('::', '<') or re.match(r'\w', words[0]) and before == '::'):
                        before, words = words[0], words[behind(words, 0) if words[0] == '<' else 1:]
                if not words or words[0] not in ('&&', '||'):
                    break
                words = words[1:]
        elif words[:2] == ['[', '['] or words[0] in ('alignas', 'TRIREME_COLD', 'TRIREME_NOINLINE', 'TRIREME_HOST_DEVICE'):
            words = words[behind(words, 0, '[') if words[0] == '[' else 1:]
        else:
            break
    return parameters, words


def kind_and_name(words):
    """What a declaration is, its name, and whether it is a specialisation; nothing for what declares no new name."""
    if not words or words[0] in ('friend', 'static_assert', 'extern', 'public', 'private', 'protected', '~'):
        return None
    if words[0] in KEYS:
        at = 1 + (words[:2] == ['enum', 'class'])
        while words[at:at + 2] == ['[', '[']:
            at = behind(words, at, '[')
        if words[at:at + 1] == ['alignas']:
            at = behind(words, at + 1, '(')
        at += at < len(words) and words[at].startswith('TRIREME_')
        if at >= len(words) or words[at] in ('{', ':'): # it has no name
            return None
        special = words[at + 1:at + 2] == ['<']
        return ('enum' if words[0] == 'enum' else 'struct'), words[at], special
    if words[0] == 'using':
        return ('using', words[1], False) if words[2:3] == ['='] else None
    if words[0] == 'concept':
        return 'concept', words[1], False
    at = 0
    while at < len(words):
        if words[at] == 'operator':
            end = words.index('(', at + 1 + 2 * (words[at + 1] == '('))
            return 'function', joined(words[at:end]).replace(' ', ''), False
        if words[at] == '(' and at > 0 and words[at + 1:at + 2] == ['*']: # a pointer to a function
            return 'variable', words[at + 2], False
        if words[at] == '(' and at > 0 and re.match(r'\w', words[at - 1]) and words[at - 1] not in (
                'decltype', 'noexcept', 'explicit', 'alignas', 'requires'):
            return None if words[at - 2:at - 1] == ['::'] else ('function', words[at - 1], False)
        if words[at] == '[' and at > 0 and re.match(r'[A-Za-z_]', words[at - 1]): # an array
            return 'variable', words[at - 1], False
        if words[at] in CLOSING and words[at] != '{':
            at = behind(words, at, words[at])
        elif words[at] == '<' and re.match(r'\w', words[at - 1]):
            end = behind(words, at)
            if words[end:end + 1] in (['='], ['{'], [';'], []):
                return 'variable', words[at - 1], True
            at = end
        elif words[at] in ('=', '{', ',') or at + 1 == len(words):
            name = words[at - 1 if words[at] in ('=', '{', ',') else at]
            return ('variable', name, False) if re.match(r'[A-Za-z_]', name) else None
        else:
            at += 1
    return None


class Reader:
    def __init__(self, text):
        self.tokens = list(tokens_of(text))
        self.at = 0

    def skip_block(self):
        """Past a block in braces, at whose opening one it stands."""
        depth, skipped = 0, []
        while True:
            kind, word, _ = self.tokens[self.at]
            self.at += 1
            if kind in ('word', 'number', 'sign', 'string'):
                skipped.append(word)
                depth += (word == '{') - (word == '}')
            if depth == 0:
                return skipped

    def is_body(self, words):
        """Whether the brace that follows these tokens opens a body, not an initialiser or a requires-expression."""
        _, plain = without_template(words)
        if not plain: # of the requires-clause
            return False
        if plain[0] in KEYS + ('namespace', 'inline', 'extern') and '=' not in plain and '(' not in plain:
            return True
        depth = 0
        initialises = False
        for i, word in enumerate(plain):
            depth += (word in CLOSING) - (word in CLOSING.values())
            if depth == 0 and word == '=' and plain[i - 1] != 'operator' and (
                    plain[i + 1:] or plain[i - 1]) and plain[0] != 'friend':
                return False
            initialises = initialises or depth == 0 and word == ':' and ')' in plain[:i]
        if ')' not in plain or plain[-1] == 'requires':
            return False
        return not (initialises and re.match(r'[\w>]', plain[-1]))

    def scope(self, public):
        """The declarations up to the end of the block that has begun, or of the file."""
        found, doc, free, ended, goes_on, last = [], [], True, -2, -2, None
        while self.at < len(self.tokens):
            kind, word, line = self.tokens[self.at]
            if kind == 'line':
                self.at += 1
                if self.at < len(self.tokens) and self.tokens[self.at][0] == 'line':
                    doc, free = [], True
                continue
            if kind in ('doc', 'comment', 'macro', 'after'):
                self.at += 1
                if kind == 'doc':
                    doc.append(word[3:].removeprefix(' '))
                elif kind == 'after' and last is not None and line in (ended, goes_on):
                    for one in last:
                        one.doc = word[4:].strip() if line == ended else f'{one.doc} {word[4:].strip()}'
                        one.joins = False
                    goes_on = line + 1
                elif kind == 'comment' and not word.startswith('// clang-format'):
                    doc, free = [], True
                continue
            if word == '}':
                self.at += 1
                return found
            if word in ('public', 'private', 'protected') and self.tokens[self.at + 1][1] == ':':
                public, doc, free = word == 'public', [], True
                self.at += 2
                continue
            begun = line
            words, members, is_body = [], [], False
            while self.at < len(self.tokens):
                kind, word, line = self.tokens[self.at]
                if kind not in ('word', 'number', 'sign', 'string'):
                    self.at += 1
                elif word == ';':
                    self.at += 1
                    break
                elif word == '{' and not (is_body := self.is_body(words)):
                    words += self.skip_block()
                elif word == '{':
                    plain = without_template(words)[1]
                    if 'namespace' in plain[:2] or plain[:1] == ['extern']:
                        self.at += 1
                        members = self.scope(True)
                        break
                    if plain[0] in ('struct', 'class', 'union'):
                        self.at += 1
                        members = self.scope(plain[0] != 'class')
                        if self.tokens[self.at][1] == ';':
                            self.at += 1
                            break
                        continue
                    enum = plain[0] == 'enum'
                    self.skip_block()
                    if enum and self.tokens[self.at][1] == ';':
                        self.at += 1
                    break
                elif word in '([':
                    depth = 0
                    while True:
                        kind, word, line = self.tokens[self.at]
                        if kind in ('word', 'number', 'sign', 'string'):
                            words.append(word)
                            depth += (word in '([{') - (word in ')]}')
                        self.at += 1
                        if depth == 0:
                            break
                else:
                    words.append(word)
                    self.at += 1
            line = self.tokens[self.at - 1][2]
            parameters, plain = without_template(words)
            if 'namespace' in plain[:2]:
                names = [word for word in plain if re.match(r'\w', word) and word not in ('namespace', 'inline')]
                found.append(Declaration('namespace', '::'.join(names), '\n'.join(doc), begun, [], plain, members))
                doc, free, last = [], True, None
                continue
            known = kind_and_name([word for word in plain if word not in ('inline', 'consteval')]
                                  if plain[:1] != ['inline'] else plain[1:])
            if known:
                kind, name, special = known
                made = Declaration(kind, name, '\n'.join(doc), begun, parameters, plain, members, public, False, special,
                                   words[:len(words) - len(plain)], is_body)
                if not doc and not free and found:
                    made.joins = True
                last = [made]
                if kind == 'variable':
                    for part in split_at_commas(plain)[1:]:
                        other = next(word for word in part if re.match(r'[A-Za-z_]', word))
                        last.append(dataclasses.replace(made, name=other, words=[*self.type_of(plain), *part]))
                    if len(last) > 1:
                        made.words = split_at_commas(plain)[0]
                found += last
                ended, free = line, False
            doc = []
        return found

    @staticmethod
    def type_of(words):
        first = split_at_commas(words)[0]
        ends = [first.index(sign) for sign in ('=', '[', '{') if sign in first]
        return first[:min(ends, default=len(first)) - 1]


def declarations(text):
    """All declarations of a header at namespace scope outside of namespaces called detail: (namespace, declaration)."""
    def walk(all_of_them, space):
        for one in all_of_them:
            if one.kind != 'namespace':
                yield space, one
            elif 'detail' not in one.name.split('::'):
                inner = [part for part in one.name.split('::') if part not in ('trireme', 'TRIREME_ISA', 'literals')]
                yield space, dataclasses.replace(one, members=[])
                yield from walk(one.members, '::'.join([*([space] if space else []), *inner]))
    return list(walk(Reader(text).scope(True), ''))
