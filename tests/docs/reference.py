# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes docs/reference.md, which lists everything that a program can name, of the headers and their comments.

reference.py SOURCE_ROOT             writes the page
reference.py SOURCE_ROOT --check     fails if the page is not what would be written

SECTIONS says which headers a section lists; the first section that names a header has it. Of a header it lists what has
a comment /// and lies outside of namespaces called detail, less what the section leaves out; rules (..._rule) are the
matter of errors.md, of which the last section lists the codes. Of a comment the page shows the first sentence, so that
one says what the name is without the rest.

Structs that designated initialisers fill (aggregates) are on the page with all their members: type, default, and the
member's comment, which says unit or rule. Each member has such a comment; those of the options of training may have
it in another of these structs. A check of its own looks for every member on the page, and CONTROL is what it must find.

A header that no section names has nothing for programs: all of it lies in namespaces called detail, or INTERNAL has it.
INTERNAL may only become shorter: a new header that is not for programs has its names in detail.
"""
import collections
import dataclasses
import pathlib
import re
import sys

sys.dont_write_bytecode = True
sys.path += [str(pathlib.Path(__file__).resolve().parent.parent / folder)
             for folder in ('headers', 'compile_fail', 'support')]
import declarations  # noqa: E402
import page as errors  # noqa: E402
import rules  # noqa: E402
from checks import write_or_check  # noqa: E402
from declarations import joined  # noqa: E402

PAGE = 'docs/reference.md'


@dataclasses.dataclass
class Section:
    title: str
    chapter: str  # of a page in docs
    headers: str  # patterns below include/trireme
    leaves_out: str = ''  # names, as an expression
    only: str = ''
    kind: str = 'names'  # names, options, policies, codes, errors
    members: str = ''  # classes whose member functions are listed, as an expression
    rest: bool = False  # the headers that no other section names


SECTIONS = [
    Section('Networks', 'guide.md#a-network-is-a-type', 'layer/network.hpp layer/network_rows.hpp layer/summary.hpp', 'layer_row|with_commas'),
    Section('Layers', 'guide.md#a-network-is-a-type', 'layer/*.hpp', 'activation', rest=True),
    Section('Combinators', 'guide.md#residual-networks', 'layer/combinators.hpp', 'fixed_text'),
    Section('Losses', 'guide.md#losses', 'layer/*loss*.hpp layer/*cross_entropy*.hpp',
            'target_.*|loss_operands|loss_io|batch_weight|loss_description'),
    Section('Initial weights', 'guide.md#one-device', 'layer/initialise.hpp', 'initialise_.*'),
    Section('Layers of your own', 'guide.md#a-layer-described', 'layer/layer.hpp layer/gradient_check.hpp layer/names.hpp',
            'remote_view|all_samples_view|view_of|granule_place'),
    Section('Optimizers', 'guide.md#optimizers', 'optimizer/*.hpp', '.*_options|rate_schedule|.*_rate'),
    Section('Learning rates', 'guide.md#optimizers', 'optimizer/*.hpp', '', 'rate_schedule|.*_rate',
            members='.*_rate'),
    Section('Options of training', 'guide.md#one-device', 'optimizer/*.hpp', '', '.*_options', 'options'),
    Section('Options of the run', 'guide.md#choosing-at-run-time', 'trainer/options.hpp trainer/shared_windows.hpp', '',
            'run_options|process_of|seat', 'options'),
    Section('Policies of trainers', 'guide.md#two-devices', 'trainer/policies.hpp', 'per_device|once|all|chosen_at_run_time',
            kind='policies'),
    Section('Arguments of policies', 'guide.md#strategies',
            'trainer/policies.hpp parallel/tensor_rules.hpp parallel/stages.hpp schedule/fixed_tree.hpp', 
            'network_segments|segments_of|shards_of|tensor_place', 'per_device|once|all|chosen_at_run_time|for_.*|in_.*|of_.*'
            '|biases|norms|embeddings|bucket|balanced_.*|cut_.*|fixed_tree'),
    Section('Devices and meshes', 'guide.md#two-devices', 'group/mesh.hpp device/host/device.hpp device/cuda/device.hpp '
            'device/rehearsal/device.hpp', 'mesh_axis_type|axis_set'),
    Section('Transports', 'clusters.md', 'trainer/*_transport.hpp trainer/shared_windows.hpp trainer/policy_arguments.hpp '
            'trainer/mpi_processes.hpp collective/on_streams/nccl.hpp', '', 'mpi|nccl|shared_windows|peer|process_by_mpi'),
    Section('Kernels', 'kernels.md#policies', 'kernels/kernel_context.hpp kernels/*/policy.hpp',
            '', 'portable|reference|onednn|channels_last|block_kernels|cuda_.*kernels|kernel_context|kernel_policy|value_layout|fusion'
            '|with_function'),
    Section('Training', 'guide.md#one-device', 'trainer/trainer.hpp trainer/fit.hpp trainer/report.hpp', 'epoch_range',
            members='trainer|.*_report|evaluation|fit_options'),
    Section('Observers and logs', 'guide.md#watching-and-stopping',
            'trainer/observers.hpp trainer/*log*.hpp trainer/*_bar.hpp', members='.*_options'),
    Section('Models, predictions, accuracy, weights in files', 'guide.md#asking-a-trained-network',
            'trainer/model.hpp trainer/predictions.hpp trainer/accuracy.hpp trainer/weights.hpp', 
            members='model|predictions|confusion_matrix'),
    Section('Checkpoints', 'guide.md#saving-a-training-and-going-on', 'trainer/checkpoint.hpp trainer/checkpoint_manifest.hpp '
            'trainer/snapshot.hpp', '', members='checkpoint_manifest|training_snapshot'),
    Section('The plan', 'guide.md#the-plan', 'parallel/plan.hpp parallel/plan_text.hpp parallel/price.hpp parallel/layout.hpp parallel/update_runs.hpp '
            'parallel/pieces.hpp parallel/memory_map.hpp parallel/measured_rows.hpp', 'reduction_bucket|arena_extent|memory_.*|row_numbers|numbers_.*|held_numbers'
            '|for_each_piece_of|max_.*', members='training_plan|parallel_layout|owned_bytes|measured_rows'),
    Section('Samples and files of samples', 'guide.md#numbers-of-your-own', 'data/*.hpp',
            'with_number_of|safetensors_.*|write_safetensors|gather_.*|sample_prefetch|gzip_file|epoch_order|.*_to_take'),
    Section('Files of tensors', 'guide.md#weights-in-files', 'data/safetensors.hpp data/safetensors_header.hpp', '',
            'safetensors_.*|write_safetensors'),
    Section('Strategies of collectives', 'guide.md#strategies', 'schedule/collective/*.hpp',
            'strategy_prices|step_kind|rank_list|one_rank|two_ranks|all_others|chunk_list|collective_step|reads|has_root'
            '|name_of|collective|collectives|schedule|.*_schedule|schedule_of|makes|.*_strategy'),
    Section('Collectives', 'clusters.md#collectives-on-a-communicator-of-your-own', 'collective/*.hpp',
            'message_.*|native_run|either_run|.*_view|schedule_run|run_by|run_of|sent_places|stage_moves|proved_schedule'
            '|asked_for|.*buffer_of|.*buffer|functor_.*|add_in_fixed_tree'),
    Section('Groups of ranks', 'clusters.md#collectives-on-a-communicator-of-your-own', 
            'group/communicator.hpp group/transport/threads/group.hpp group/transport/processes/state.hpp '
            'group/transport/processes/group.hpp group/transport/mpi/group.hpp group/transport/peer/group.hpp '
            'group/transport/nccl/group.hpp group/launch.hpp', '',
            '.*communicator|launch|.*_launch|launched_.*|group|.*_group|.*_job|meeting_place|mpi_windows'),
    Section('Pipeline schedules', 'guide.md#a-pipeline-of-stages',
            'schedule/pipeline/schedule.hpp schedule/pipeline/schedules/*.hpp', '.*_of.*|gives_.*'),
    Section('Schedules as values', 'guide.md#a-schedule-is-a-value', 
            'schedule/collective/schedule.hpp schedule/collective/strategy.hpp schedule/verify.hpp schedule/proof/verdict.hpp '
            'schedule/draw.hpp core/levels.hpp', '', 'step_kind|rank_list|one_rank|two_ranks|all_others|chunk_list'
            '|collective_step|collective|schedule|.*_schedule|schedule_of|makes|.*_strategy|verify|describe|proves'
            '|proved_by_compiler|schedule_svg|schedule_fault|levels'),
    Section('Costs', 'schedules.md#costs', 'schedule/cost.hpp schedule/machine.hpp', 'chunk_range|buffer_cut'),
    Section('Steps as values', 'guide.md#a-pipeline-of-stages', 'schedule/pipeline/*.hpp',
            'gpipe|one_f_one_b|schedule_choice|pipeline_schedule|scheduled_work|name_of|counted_by|task_log|lowering|by_.*'
            '|.*_of.*|gives_.*|max_.*|step_capacity|task_lanes|role_order|is_step_for_compiler'),
    Section('Values and numbers', 'guide.md#a-network-is-a-type', 'core/units.hpp core/extents.hpp core/dtype.hpp core/bf16.hpp '
            'core/percentage.hpp core/label.hpp core/version.hpp core/philox.hpp', 'cache_line|huge_page|to_extents|philox'
            '|part|range'),
    Section('Exceptions', 'guide.md#waiting-and-failing', 'core/errors.hpp device/cuda/errors.hpp '
            'group/transport/processes/window.hpp', 'forget_.*', '.*_error|group_stopped'),
    Section('Exit codes', 'clusters.md#when-something-goes-wrong', 'core/exit_code.hpp', kind='codes'),
    Section('Errors of the compiler', errors.PAGE.removeprefix('docs/'), '', kind='errors'),
]

# Headers without a name for programs, though not all of it lies in namespaces called detail, and what they are.
INTERNAL = {
    'core/': 'words of messages and parts of other headers',
    'device/': 'memory, streams and registers',
    'kernels/': 'kernels, and what they are made of',
    'group/': 'the parts of groups',
    'collective/on_streams/': 'collectives of trainers on accelerators',
    'layer/activation_plan.hpp': 'the memory of a trainer',
    'layer/for_units.hpp': 'a loop of passes',
    'layer/host_pass.hpp': 'passes of a trainer',
    'layer/row_*.hpp': 'passes of a trainer',
    'layer/stage_pass.hpp': 'passes of a trainer',
    'trainer/stream_*.hpp': 'parts of a trainer on accelerators',
    'parallel/gradient_norm.hpp': 'a part of clip_norm',
    'parallel/step.hpp': 'parts of a trainer',
    'schedule/messages.hpp': 'the messages of a schedule',
    'schedule/rounds.hpp': 'the order of messages',
    'trainer/*_executor.hpp': 'parts of a trainer',
    'trainer/*_run.hpp': 'parts of a trainer',
    'trainer/agreement.hpp': 'a part of a trainer in processes',
    'trainer/channels_last_rows.hpp': 'a part of a trainer',
    'trainer/composition.hpp': 'the types of a trainer',
    'trainer/host_samples.hpp': 'a part of a trainer',
    'trainer/sample_batch.hpp': 'a part of a trainer',
    'trainer/stage_neighbours.hpp': 'a part of a trainer',
    'trainer/trainer_policies.hpp': 'the answers of policies',
    'trainer/training_state.hpp': 'a part of a trainer',
}
MOST_INTERNAL = 25  # lower it with every one that goes
HIDES_ITS_SUBJECT = re.compile(r'(What|Who|Where|Whether|Which|How|The same|That|Those|They|It|These|Everyone|Nobody)\b')
OWN_PAGES = ('guide.md', 'gpu.md', 'clusters.md', 'schedules.md', 'kernels.md')

# A header whose structs lack comments, a page that lacks members of them, and what must be said of both.
CONTROL = """
namespace trireme {
/// An option struct.
template<class T>
struct planted {
    using type = T;
    static constexpr int not_data = 1;
    int said = 0; ///< steps
    int silent = 0;
    /// Seconds.
    double above = 0;
    double first = 0, second = 0;
    T values[2] = {};
    void (*called)(int) = nullptr;
    int last = 0; ///< a member that the page lacks
    int function() const { return 1; }
};
/// No aggregate.
struct made { made(int); int silent = 0; };
class hidden { int silent = 0; };
} // namespace trireme
"""
CONTROL_PAGE = '\n'.join(f'| `planted::{name}` |' for name in ('said', 'silent', 'above', 'first', 'second', 'values',
                                                               'called'))
CONTROL_SILENT = ['silent', 'first', 'second', 'values', 'called']
CONTROL_MISSING = ['last']


def first_sentence(doc):
    """Up to its end, or to where a list, a table or a listing begins."""
    lines = []
    for line in doc.split('\n'):
        if not line.strip() or re.match(r'- |    |\|', line):
            break
        lines.append(line.strip())
    text = ' '.join(lines)
    found = re.search(r'(?<!e\.g)(?<!\.)\.(?=\s+[A-Z`"(]|$)', text)
    return text[:found.end()] if found else text


def code(text):
    return '`' + text.replace('|', '\\|') + '`'


def matches(header, pattern):
    """A star stands for part of a name, not for folders; a pattern that ends with / is a folder with all below."""
    begins = re.escape(pattern).replace(r'\*', '[^/]*')
    return re.fullmatch(begins + ('.*' if pattern.endswith('/') else ''), header) is not None


def silent_members(one):
    """The members of an aggregate without a comment."""
    return [member for member in one.data() if not member.doc]


def missing_members(one, page, prefix):
    """The members of an aggregate without a row on the page."""
    return [member for member in one.data() if f'\n| `{prefix}{member.name}` |' not in '\n' + page]


def check_control():
    """Both see what they are there for."""
    structs = [one for _, one in declarations.declarations(CONTROL) if one.is_aggregate()]
    found = ([member.name for one in structs for member in silent_members(one)],
             [member.name for one in structs for member in missing_members(one, CONTROL_PAGE, f'{one.name}::')])
    return [] if found == (CONTROL_SILENT, CONTROL_MISSING) and len(structs) == 1 else [
        f'tests/docs/reference.py: of the structs of CONTROL, {[one.name for one in structs]} are aggregates, {found[0]} '
        f'have no comment, and {found[1]} are not on its page']


class Pages:
    """Chapters of the documentation, and what they say in code."""

    def __init__(self, root):
        self.chapters = []  # (link, title, the code's text)
        for name in OWN_PAGES:
            text = (root / 'docs' / name).read_text(encoding='utf-8')
            fenced = [False]
            chapter = [f'{name}', text.split('\n')[0].lstrip('# '), '']
            for line in text.split('\n'):
                fenced[0] ^= line.startswith('```')
                if not fenced[0] and (found := re.match(r'##+ (.*)', line)):
                    self.chapters.append(tuple(chapter))
                    anchor = re.sub(r'[^\w\- ]', '', found[1].lower()).replace(' ', '-')
                    chapter = [f'{name}#{anchor}', found[1], '']
                elif fenced[0]:
                    chapter[2] += line + '\n'
                else:
                    chapter[2] += '\n'.join(re.findall(r'`([^`]+)`', line)) + '\n'
            self.chapters.append(tuple(chapter))
        self.chapters.append((errors.PAGE.removeprefix('docs/'), 'Compile-time errors', ''))

    def title(self, link):
        return next((title for chapter, title, _ in self.chapters if chapter == link), None)

    def about(self, name, is_member, usual):
        """The chapter called like the name, else the usual one, if the name is in its code, else the first one."""
        before = r'\b(?:t|m|trainer|model)(?:\.|::)' if is_member else r'(?<![\w.])(?<!std::)'
        word = re.compile(before + re.escape(name) + r'\b')
        having = [link for link, _, text in self.chapters if word.search(text)]
        called = [link for link, title, _ in self.chapters if title == name]
        return (called or [link for link in having if link == usual] or having or [usual])[0]


class Reference:
    def __init__(self, root):
        self.faults = []
        self.root = root
        self.pages = Pages(root)
        top = root / 'include'
        paths = {path.relative_to(top).as_posix(): path for path in sorted(top.rglob('*.hpp'))}
        self.headers = {name.removeprefix('trireme/'): declarations.declarations(path.read_text(encoding='utf-8'))
                        for name, path in paths.items() if name not in rules.UMBRELLAS}
        headers_with = collections.Counter(name for all_of_it in self.headers.values() for name in {
            one.name for _, one in all_of_it if one.kind == 'function' and not one.special})
        self.overloaded = {name for name, headers in headers_with.items() if headers > 1}
        self.umbrella = {}
        for umbrella in sorted(rules.UMBRELLAS, key=lambda one: (one != rules.UMBRELLA, len(rules.reached(paths, one)))):
            for name in rules.reached(paths, umbrella):
                self.umbrella.setdefault(name.removeprefix('trireme/'), umbrella)

    def fault(self, header, one, text):
        self.faults.append(f'include/trireme/{header}:{one.line}: {one.name}: {text}')

    def where(self, header):
        umbrella = self.umbrella.get(header, 'trireme/' + header)
        also = '' if umbrella == rules.UMBRELLA else f', `{umbrella}`' if umbrella != 'trireme/' + header else ' itself'
        return f'[{header}](../include/trireme/{header}){also}'

    def link(self, section, name, is_member=False):
        overloaded = not is_member and name in self.overloaded  # a chapter may mean another header's function
        at = section.chapter if overloaded else self.pages.about(name, is_member, section.chapter)
        return f'[{self.pages.title(at)}]({at})'

    def sentence(self, header, one, doc=None):
        """The first sentence of a comment, or a fault."""
        doc = doc if doc is not None else one.doc
        text = first_sentence(doc)
        if found := HIDES_ITS_SUBJECT.match(text[:1].upper() + text[1:]):
            self.fault(header, one, f'its comment begins with "{found[0]}": begin with what it is')
        elif not text.endswith('.') and (len(text) < len(' '.join(doc.split())) or re.search(r'[:;,]$', text)):
            self.fault(header, one, f'the first sentence of its comment has no end behind "{text[-20:]}"')
        return errors.cell(text)

    def headers_of(self, section):
        """In the order of the section's patterns. A header that only a star names is not, if INTERNAL has its name."""
        others = set() if not section.rest else {
            header for one in SECTIONS if not one.rest for header in self.headers_of(one)}
        found = {header: None for pattern in section.headers.split() for header in self.headers
                 if matches(header, pattern) and header not in others
                 and ('*' not in pattern or not any(matches(header, one) for one in INTERNAL if one[-1] != '/'))}
        return list(found)

    def taken(self, section):
        """The headers of a section, and the declarations of each that have a comment, with those that share it."""
        for header in self.headers_of(section):
            groups = []
            for space, one in self.headers[header]:
                if one.kind == 'namespace' or one.special or one.name.endswith('_rule') or space.startswith('words'):
                    continue
                named = re.fullmatch(section.only or '.*', one.name) and not (
                    section.leaves_out and re.fullmatch(section.leaves_out, one.name))
                if one.doc and not one.joins:
                    groups.append((one, one.line, [] if not named else [(space, one)]))
                elif one.joins and groups:
                    groups[-1][2].extend([(space, one)] if named else [])
                else:
                    groups.append((one, one.line, []))
                    if named and (one.members or one.kind in ('concept', 'enum')):
                        self.fault(header, one, 'it needs a comment')
            yield header, [(first, shown) for first, _, shown in groups if shown]

    def table(self, head, rows):
        return '\n'.join([f'| {" | ".join(head)} |', f'|{" --- |" * len(head)}', *(f'| {" | ".join(row)} |' for row in rows)])

    def members(self, section, header, one):
        rows, seen = [], set()
        for member in one.members:
            doc = member.doc
            if not member.public or not doc or member.kind not in ('function', 'variable') or member.name in seen:
                continue
            if member.kind == 'variable' and one.is_aggregate(): # in the table of aggregates
                continue
            if member.name.startswith('operator') or member.name == one.name:
                continue
            seen.add(member.name)
            rows.append((code(f'{one.name}::{member.signature()}'), self.sentence(header, member), self.where(header),
                         self.link(section, member.name, True)))
        return rows

    def names(self, section):
        rows, seen, data = [], set(), []
        for header, groups in self.taken(section):
            for first, shown in groups:
                signatures = []
                for space, one in shown:
                    text = (space + '::' if space and space != 'literals' else '') + one.signature()
                    if (header, text) not in seen:
                        signatures.append(code(text))
                        seen.add((header, text))
                if not signatures:
                    continue
                if not first.doc:
                    continue
                rows.append((', '.join(signatures), self.sentence(header, first), self.where(header),
                             self.link(section, shown[0][1].name)))
                for _, one in shown:
                    if section.members and re.fullmatch(section.members, one.name):
                        rows += self.members(section, header, one)
                    if one.is_aggregate():
                        data += self.data(header, one)
        tables = [self.table(('name', 'what it is', 'header', 'more'), rows)] if rows else []
        if data:
            tables += ['Members, in the order in which initialisers name them:',
                       self.table(('member', 'type', 'default', 'what it is'), data)]
        return '\n\n'.join(tables)

    def data(self, header, one):
        """Rows of the members of an aggregate."""
        for member in one.data():
            kind, default = member.type_and_default()
            default = self.value(kind, default)
            yield (code(f'{one.name}::{member.name}'), code(kind), code(default) if default else '',
                   self.sentence(header, member) if member.doc else '')

    @staticmethod
    def value(kind, default):
        """An initialiser as a number, where {} is one."""
        kind = 'whole' if re.fullmatch(r'(std::)?u?int(\d+_t)?|std::size_t|(bytes|flops)_t', kind) else kind
        if default == '{}':
            default = {'whole': '0', 'bool': 'false', 'float': '0', 'double': '0', 'std::string': '""'}.get(kind, default)
        if kind.startswith('std::optional<') and default == '{}':
            return 'std::nullopt'
        return re.sub(r'(?<=\d)/(?=\d)', ' / ', re.sub(r'(?<=\d)f\b', '', default))

    def policies(self, section):
        rows = []
        for header, groups in self.taken(section):
            for first, shown in groups:
                one = shown[0][1]
                default = re.search(r'Default:\s+(.+?)\.(?:\s|$)', one.doc, flags=re.S)
                if not default:
                    self.fault(header, one, 'its comment needs "Default: ...", what a trainer does that names no such policy')
                    continue
                rows.append((code(one.signature()), self.sentence(header, one), errors.cell(' '.join(default[1].split())),
                             self.where(header), self.link(section, one.name)))
        return self.table(('policy', 'what it is', 'default', 'header', 'more'), rows)

    def codes(self, section):
        rows, functions = [], []
        for header, groups in self.taken(section):
            for first, shown in groups:
                rows += [(one.type_and_default()[1], code(f'{space}::{one.name}'), self.sentence(header, one))
                         for space, one in shown if one.kind == 'variable']
                functions += [(code(f'{space}::{one.signature()}'), self.sentence(header, one), self.where(header))
                              for space, one in shown if one.kind == 'function']
        tables = [self.table(('code', 'name', 'meaning'), rows)]
        if functions:
            tables.append(self.table(('name', 'what it is', 'header'), functions))
        return '\n\n'.join(tables)

    def errors(self, section):
        groups, _, _, faults = errors.groups_of(self.root)
        self.faults += faults
        rows = [(code_name, (f'[{code_name}]({section.chapter}#{anchor})', rule, about))
                for about, entries in groups for code_name, anchor, rule in entries]
        return self.table(('code', 'rule', 'about'), [row for _, row in sorted(rows)])

    # ---- options: fields of structs, of which a trainer's type may fix some ----

    def struct(self, name):
        for header in self.headers:
            for _, one in self.headers[header]:
                if one.kind == 'struct' and one.name == name and not one.special and one.members:
                    return one
        return None

    def field(self, one, arguments):
        """Type and default of a field; nothing for one that only refuses a name."""
        kind, default = one.type_and_default()
        if found := re.fullmatch(r'Choices::(\w+)', kind):
            aliases = self.struct('option_fields').members + self.struct('training_fields').members
            alias = next(one for one in aliases if one.name == found[1])
            kind = text = joined(alias.words[3:])
            if outer := re.fullmatch(r'typename (\w+)<.*>::type', text):
                text = joined(next(one for one in self.struct(outer[1]).members if one.name == 'type').words[3:])
            kind = text if 'chosen_' in text else None
        if not kind:
            return None
        if chosen := re.search(r'(chosen_\w+)(?:<(.*?)>(?=[,>)]|$))?', kind):
            value = next(one for one in self.struct(chosen[1]).members if one.name == 'value')
            parameters = self.struct(chosen[1]).parameters
            words = [chosen[2] if word in parameters else word for word in value.words]
            kind, default = self.field(dataclasses.replace(value, words=words), {})
        for name, argument in arguments.items():
            default = re.sub(rf'\b{name}\b', argument, default)
        if picked := re.fullmatch(r'(true|false) \? (.+) : (.+)', default):
            default = picked[2 if picked[1] == 'true' else 3]
        return re.sub(r'^typename ', '', kind), self.value(kind, default)

    def fields(self, header, one, arguments, comments):
        """Rows of the fields of a struct: name, type, default, comment."""
        for member in one.members:
            if member.kind != 'variable' or not member.public or 'static' in member.words:
                continue
            found = self.field(member, arguments)
            if not found:
                continue
            doc = member.doc or comments.get(member.name, '')
            if not doc:
                self.fault(header, member, f'a field of {one.name}, needs a comment')
            else:
                yield member.name, found[0], found[1], self.sentence(header, member, doc)

    def options(self, section):
        """Fields that all structs have come first; behind each, whose they are and with which default."""
        users = []  # (who, header, struct, arguments)
        for header, groups in self.taken(section):
            for _, shown in groups:
                for _, one in shown:
                    found = False
                    for _, other in self.headers[header]:
                        for member in other.members:
                            if member.kind == 'using' and member.name == 'options' and one.name in member.words:
                                given = declarations.split_at_commas(member.words[member.words.index('<') + 1:-1])
                                users.append((other.name, header, one, {
                                    name: joined(words) for name, words in zip(one.parameters, given)}))
                                found = True
                    if not found:
                        users.append((one.name, header, one, {}))
        users.sort(key=lambda user: -len(user[2].members)) # those with the most options first
        users.sort(key=lambda user: not user[0].startswith(('sgd', 'run_options'))) # and the usual ones before them
        comments, rows = {}, {} # a field without a comment has that of another struct's field of its name
        for member in (member for _, _, one, _ in users for member in one.members):
            if member.doc and member.kind == 'variable' and self.field(member, {}):
                comments.setdefault(member.name, member.doc)
        for who, header, one, arguments in users:
            for name, kind, default, text in self.fields(header, one, arguments, comments):
                rows.setdefault(name, {}).setdefault((kind, default, text), []).append(who)
        out = []
        for name, ways in rows.items():
            for (kind, default, text), whose in ways.items():
                every = len(whose) == len(users)
                out.append((not every, (code(name), code(kind), code(default) if default else '', text,
                                        'all' if every else ', '.join(map(code, whose)))))
        out = [row for _, row in sorted(out, key=lambda pair: pair[0])] if len(users) > 3 else [row for _, row in out]
        headers = sorted({header for _, header, _, _ in users})
        return (f'In {", ".join(map(self.where, headers))}.\n\n'
                + self.table(('option', 'type', 'default', 'what it is', 'of'), out))

    def page(self):
        named = {header for section in SECTIONS for header in self.headers_of(section)}
        for header, all_of_it in self.headers.items():
            public = [one.name for _, one in all_of_it if one.kind != 'namespace' and not one.special
                      and not one.name.endswith('_rule')]
            if header not in named and public and not any(matches(header, one) for one in INTERNAL):
                self.faults.append(f'include/trireme/{header}: no section of tests/docs/reference.py names it: give it one, '
                                   f'or move {", ".join(public[:3])} to a namespace called detail')
        for pattern in INTERNAL:
            if not any(matches(header, pattern) for header in self.headers if header not in named):
                self.faults.append(f'tests/docs/reference.py: INTERNAL needs no {pattern} any more')
        if len(INTERNAL) != MOST_INTERNAL:
            self.faults.append(f'tests/docs/reference.py: INTERNAL has {len(INTERNAL)} entries, MOST_INTERNAL is '
                               f'{MOST_INTERNAL}: it may only fall')
        parts, index = [], []
        for section in SECTIONS:
            if not self.pages.title(section.chapter):
                self.faults.append(f'tests/docs/reference.py: there is no chapter {section.chapter}')
                continue
            text = getattr(self, section.kind)(section)
            if text:
                anchor = re.sub(r'[^\w\- ]', '', section.title.lower()).replace(' ', '-')
                index.append(f'[{section.title}](#{anchor})')
                parts.append(f'## {section.title}\n\nMore: [{self.pages.title(section.chapter)}]({section.chapter}).\n\n{text}\n')
        page = '\n'.join([HEAD.format(index=',\n'.join(index[:-1]), last=index[-1]), *parts])
        self.check_members(page)
        return page

    def check_members(self, page):
        """Each member of an aggregate of the page has a comment and a row."""
        self.faults += check_control()
        for section in SECTIONS:
            for header, groups in self.taken(section):
                for one in (one for _, shown in groups for _, one in shown if one.is_aggregate()):
                    chosen = 'Choices' in one.parameters # members may refuse a name, or have another struct's comment
                    for member in silent_members(one) if not chosen else []:
                        self.fault(header, member, f'a member of {one.name}, it needs a comment: what, and unit or rule')
                    for member in missing_members(one, page, '' if section.kind == 'options' else f'{one.name}::'):
                        if not chosen or self.field(member, {}):
                            self.fault(header, member, f'a member of {one.name}, it is not on {PAGE}')


HEAD = '''# Reference

Everything that a program can name, by what it is for: each name with the first sentence of its comment, its header below
`include/trireme`, and the chapter that shows it. `trireme/trireme.hpp` includes a header, unless another include stands
beside it. The comments in the headers say the rest: parameters, errors, costs, sources. All names are in the namespace
`trireme`. `trireme/fwd.hpp` declares the types that trainers and models consist of, for headers that only name them.
Structs that designated initialisers fill, `{{.epochs = 10}}`, have all their members here, with type, default, and unit
or rule.

{index},
and {last}, TRI0001 and the others.

This page is written by `python3 tests/docs/reference.py .`; to change a sentence, change the comment in the header.
'''


def main():
    root = pathlib.Path(sys.argv[1])
    reference = Reference(root)
    page = reference.page()
    return write_or_check(root, {PAGE: page}, reference.faults, 'tests/docs/reference.py')


if __name__ == '__main__':
    sys.exit(main())
