// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/schedules.hpp>

#include <doctest/doctest.h>

#include <schedule/naive_steps.hpp>
#include <support/built_in_schedules.hpp>
#include <support/built_step.hpp>
#include <support/numbers.hpp>
#include <support/own_schedules.hpp>
#include <support/sanitizers.hpp>
#include <support/seed.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

// The proof and the interpreter both judge mutants of step programs.
namespace pipeline_mutations_test {
using namespace trireme;
using namespace own_schedules;
using namespace naive_steps;
using test_support::built_evaluation;
using test_support::built_in_schedule;
using test_support::built_in_schedules;
using test_support::built_step;

namespace {

constexpr lowering lowerings[] = {by_counters, by_tagged_messages, by_messages, by_rendezvous, in_one_order};

// ---- mutations ----

/// A mutation changes the tasks of a role, the numbers of a task, or a transfer of a move.
enum class mutation : std::uint8_t {
    dropped,
    doubled,
    ahead,
    micro_batch,
    frame,
    slot,
    chunk,
    scales,
    slices,
    updates,
    kind,
    tail,
    fewer_frames,
    fewer_slots,
    frames_shared,
    slots_shared,
    split,
    merged,
    transfer_dropped,
    transfers_exchanged,
    transfer_micro_batch,
    transfer_boundary,
    transfer_place,
    transfer_gradient,
    transfer_sends,
    transfer_role
};
/// The names have the order of the mutations; "its" is a transfer's.
constexpr char const* names[] = {
    "dropped",      "doubled",   "earlier",    "micro-batch",  "frame",       "slot",        "chunk",
    "weight",       "slices",    "update",     "kind",         "tail",        "less frames", "less slots",
    "one frame",    "one slot",  "move split", "moves merged", "its absence", "its turn",    "its number",
    "its boundary", "its place", "its kind",   "its way",      "its role"};
constexpr int mutations = static_cast<int>(std::size(names));
constexpr bool is_of_transfer(mutation m) { return m >= mutation::split; }

struct change {
    mutation what = mutation::dropped;
    std::size_t role = 0, task = 0;
    int transfer = 0;
    int by = 1; ///< how far, how much more, or which of several ways
};

std::string text_of(change const& c) {
    std::ostringstream s;
    s << names[static_cast<std::size_t>(c.what)] << ": role " << c.role << ", task " << c.task << ", transfer "
      << c.transfer << ", by " << c.by;
    return s.str();
}

/// The number goes up, round from `count`, one more than exist, to 0. False: it has not changed.
template<class N>
bool other(N& n, int by, int count) {
    auto const before = n;
    n = static_cast<N>((n + by) % (count + 1));
    return n != before;
}

/// The role uses another place wherever it used the task's own. False: nothing has changed.
bool share_places(change const& c, open_program& p, bool of_slots) {
    auto const count = of_slots ? p.shape.slots[c.role] : p.shape.frames[c.role];
    auto& list = p.lists[c.role];
    auto const from = of_slots ? list[c.task].slot : list[c.task].frame;
    if (!list[c.task].computes() || count < 2 || from >= count) return false;
    auto const to = static_cast<std::uint16_t>((from + c.by) % count);
    for (auto& t : list) {
        auto& n = of_slots ? t.slot : t.frame;
        if (t.computes() && n == from) n = to;
        for (int k = 0; k < t.transfers; ++k)
            if (auto& m = t.moves[k]; (m.sends && m.gradient) == of_slots && m.place == from) m.place = to;
    }
    return to != from;
}

/// The change is of a transfer of a move, or of the move. False: there is nothing to change so.
bool apply_to_transfer(change const& c, open_program& p) {
    auto& list = p.lists[c.role];
    auto const here = list.begin() + static_cast<std::ptrdiff_t>(c.task);
    auto& t = *here;
    if (t.kind != task_kind::move || c.transfer >= t.transfers) return false;
    auto& m = t.moves[c.transfer];
    switch (c.what) {
    case mutation::split: { // its transfers from this one on are a move of their own, behind the others or before them
        if (c.transfer == 0) return false;
        step_task rest;
        rest.kind = task_kind::move;
        for (int k = c.transfer; k < t.transfers; ++k) rest.moves[rest.transfers++] = t.moves[k];
        t.transfers = static_cast<std::uint8_t>(c.transfer);
        list.insert(here + c.by % 2, rest);
        ++p.tails[c.role];
        return true;
    }
    case mutation::merged: { // at its place, or at the other one's
        auto const next = std::find_if(here + 1, list.end(), [](auto const& x) { return x.kind == task_kind::move; });
        if (c.transfer != 0 || next == list.end() || t.transfers + next->transfers > max_transfers) return false;
        bool const at_next = c.by % 2 == 0;
        auto& to = at_next ? *next : t;
        auto const& more = at_next ? t : *next;
        for (int k = 0; k < more.transfers; ++k) to.moves[to.transfers++] = more.moves[k];
        list.erase(at_next ? here : next);
        --p.tails[c.role];
        return true;
    }
    case mutation::transfer_dropped:
        std::copy(t.moves + c.transfer + 1, t.moves + t.transfers, t.moves + c.transfer);
        t.moves[--t.transfers] = {};
        return true;
    case mutation::transfers_exchanged:
        if (c.transfer == 0) return false;
        std::swap(m, t.moves[c.transfer - 1]);
        return true;
    case mutation::transfer_micro_batch:
        return other(m.micro_batch, c.by, p.shape.shape.micro_batches);
    case mutation::transfer_boundary:
        return other(m.boundary, c.by, p.shape.stage_count() - 1);
    case mutation::transfer_place:
        return other(m.place, c.by, m.sends && m.gradient ? p.shape.slots[c.role] : p.shape.frames[c.role]);
    case mutation::transfer_gradient:
        m.gradient = !m.gradient;
        return true;
    case mutation::transfer_sends:
        m.sends = !m.sends;
        return true;
    default:
        return other(m.role, c.by, p.shape.shape.roles);
    }
}

/// The program is changed. False: there is nothing to change so.
bool apply(change const& c, open_program& p) {
    auto& list = p.lists[c.role];
    if (c.task >= list.size()) return false;
    if (is_of_transfer(c.what)) return apply_to_transfer(c, p);
    auto const here = list.begin() + static_cast<std::ptrdiff_t>(c.task);
    auto& t = *here;
    auto& tail = p.tails[c.role];
    switch (c.what) {
    case mutation::dropped:
        tail -= c.task < tail ? 1 : 0;
        list.erase(here);
        return true;
    case mutation::doubled:
        tail += c.task < tail ? 1 : 0;
        list.insert(here, step_task(t));
        return true;
    case mutation::ahead:
        if (c.task < static_cast<std::size_t>(c.by)) return false;
        std::rotate(here - c.by, here, here + 1);
        return true;
    case mutation::micro_batch:
        return t.computes() && other(t.micro_batch, c.by, p.shape.shape.micro_batches);
    case mutation::frame:
        return t.computes() && other(t.frame, c.by, p.shape.frames[c.role]);
    case mutation::slot:
        return gives_input(t.kind) && other(t.slot, c.by, p.shape.slots[c.role]);
    case mutation::chunk:
        return t.computes() && other(t.chunk, c.by, p.shape.chunks);
    case mutation::scales:
        t.scales = !t.scales;
        return t.computes();
    case mutation::slices:
        if (!is_of_slices(t.kind) || (c.by % 4 == 2 && t.first == 0)) return false;
        if (c.by % 4 == 0) ++t.end;
        if (c.by % 4 == 1) ++t.first;
        if (c.by % 4 == 2) --t.first;
        if (c.by % 4 == 3) --t.end;
        return true;
    case mutation::updates:
        t.updates = !t.updates;
        return t.kind == task_kind::collective;
    case mutation::kind: {
        auto const kind = static_cast<task_kind>(c.by % (static_cast<int>(task_kind::copy_tied) + 1));
        if (t.kind == task_kind::move || kind == task_kind::move || kind == t.kind) return false;
        t.kind = kind;
        return true;
    }
    case mutation::tail: {
        bool const grows = c.by % 2 == 0;
        if (grows ? tail == list.size() : tail == 0) return false;
        tail = grows ? tail + 1 : tail - 1;
        return true;
    }
    case mutation::frames_shared:
        return share_places(c, p, false);
    case mutation::slots_shared:
        return share_places(c, p, true);
    case mutation::fewer_frames:
        return p.shape.frames[c.role]-- > 0;
    default:
        return p.shape.slots[c.role] > 0 && p.shape.slots[c.role]-- > 0;
    }
}

/// The visitor gets each change of one place by a little.
template<class Visit>
void every_change(open_program const& p, Visit const& visit) {
    for (std::size_t r = 0; r < p.lists.size(); ++r)
        for (std::size_t i = 0; i < p.lists[r].size(); ++i)
            for (int n = 0; n < mutations; ++n) {
                auto const what = static_cast<mutation>(n);
                bool const once = what >= mutation::tail && what <= mutation::fewer_slots && i > 0;
                int const ways = once                       ? 0
                                 : what == mutation::kind   ? 12
                                 : what == mutation::slices ? 4
                                 : what == mutation::ahead  ? 3
                                                            : 2;
                for (int k = 0; k < (is_of_transfer(what) ? p.lists[r][i].transfers : 1); ++k)
                    for (int by = 1; by <= ways; ++by) visit(change{what, r, i, k, by});
            }
}

// ---- judgement ----

/// An excuse names a fault for which the proof may refuse a mutant that computes the right numbers, and the change that
/// the mutant must have.
struct excuse {
    program_fault fault;
    mutation what;
};
constexpr excuse excuses[] = {
    // A task or a message that is done again leaves the numbers as they are, but running statistics count twice, a
    // place
    // may be in use, and no price knows of its time.
    {program_fault::twice, mutation::doubled},
    {program_fault::mismatch, mutation::doubled},
    {program_fault::overwritten, mutation::doubled},
    {program_fault::elsewhere, mutation::doubled},
    // A whole backward in place of its second half leaves the first half without use, whatever that does.
    {program_fault::twice, mutation::kind},
    {program_fault::elsewhere, mutation::kind},
    {program_fault::order, mutation::kind},
    // A doubled task with another change may do nothing; the proof asks of each task what its kind needs.
    {program_fault::out_of_range, mutation::doubled},
    {program_fault::order, mutation::doubled},
    {program_fault::scale, mutation::doubled},
    // A collective may add gradients again when they have been used, or update on the way where the tail does not.
    {program_fault::slices, mutation::doubled},
    {program_fault::slices, mutation::slices},
    {program_fault::slices, mutation::updates},
    {program_fault::out_of_range, mutation::slices}, // two collectives become one, and one of nothing
    // The weight of a task without a loss is multiplied with nothing.
    {program_fault::scale, mutation::scales},
    // A move takes all its messages at once, as grouped calls do: none may be needed for another one to be sent, or
    // for the slot that it has come from.
    {program_fault::deadlock, mutation::merged},
    {program_fault::deadlock, mutation::slots_shared},
};
bool is_excused(program_fault f, std::vector<change> const& changes) {
    return std::any_of(std::begin(excuses), std::end(excuses), [&](excuse const& e) {
        return e.fault == f &&
               std::any_of(changes.begin(), changes.end(), [&](change const& c) { return c.what == e.what; });
    });
}

program_verdict verdict(step_program const& p, lowering const& by, bool evaluates) {
    return evaluates ? verify_evaluation(p, by) : verify(p, by);
}

/// The hash covers a text, and `before`.
std::uint64_t hash_of(std::string const& text, std::uint64_t before) {
    for (char const c : text) before = made_of({before, static_cast<std::uint64_t>(c)});
    return before;
}

/// A tally counts mutants.
struct tally {
    explicit tally(std::uint64_t of_turns) : seed(of_turns) {}

    std::uint64_t seed; ///< of the orders in which roles take turns
    std::size_t mutants = 0, accepted = 0, accepted_in_any_order = 0, harmless_accepted = 0, harmless_refused = 0;
    std::array<std::size_t, endings> ends = {};
    std::map<std::string, std::size_t> refused, by_schedule, by_lowering; ///< harmless ones by fault; wrong ones
    std::unordered_set<std::uint64_t> seen, wrong;                        ///< with a lowering; without

    std::size_t wrong_ones() const { return mutants - ends[0]; }
    std::string text() const {
        std::ostringstream s;
        auto const list = [&](auto const& counts) {
            for (auto const& [name, n] : counts) s << (&name == &counts.begin()->first ? "" : ", ") << name << ' ' << n;
        };
        s << mutants << " mutants of programs over lowerings, " << wrong_ones() << " of them wrong (" << wrong.size()
          << " programs), of these " << accepted << " accepted, and " << accepted_in_any_order
          << " where sums may be added in any order.\nWrong: ";
        for (std::size_t e = 1; e < endings; ++e)
            s << (e > 1 ? ", " : "") << name_of(static_cast<ending>(e)) << ' ' << ends[e];
        s << ".\nWrong over: ", list(by_lowering);
        s << ".\nWrong, made from: ", list(by_schedule);
        s << ".\nHarmless: " << ends[0] << ", of these " << harmless_accepted << " accepted, " << harmless_refused
          << " refused: ",
            list(refused);
        return s.str();
    }
};

/// A subject is the program that mutants are made of.
class subject {
public:
    subject(schedule_choice const& s, step_shape const& shape, bool evaluates)
        : evaluates_(evaluates), original_(opened(built_step(s, shape).program, s, evaluates)),
          wanted_(expected(original_.closed(storage_), evaluates)) {
        std::ostringstream text;
        text << s.name << " on " << shape.roles << " roles, " << shape.micro_batches << " micro-batches, "
             << shape.replicas << " replicas, " << shape.slices << " slices, " << shape.passes << " passes"
             << (shape.updates_on_the_way ? ", updated on the way" : "") << (shape.measures ? ", measured" : "")
             << (shape.ties ? ", tied" : "") << (evaluates ? ", evaluation" : "");
        name_ = text.str();
        id_ = hash_of(name_, 0);
        original_hash_ = hash_of(original_, id_);
    }
    open_program const& original() const { return original_; }

    /// True if the program is proved: then, and only then, it computes.
    bool is_proved(lowering const& by, std::uint64_t seed) {
        auto const p = original_.closed(storage_);
        bool const ok = verdict(p, by, evaluates_).ok();
        CAPTURE(name_);
        CAPTURE(std::string(by.name));
        CHECK((ending_of(p, by, wanted_, evaluates_, seed) == ending::right) == ok);
        return ok;
    }
    /// The mutant is judged if none before it was the same. False: one was, or there is none.
    bool judge(std::vector<change> const& changes, lowering const& by, tally& all) {
        auto mutant = original_;
        for (auto const& c : changes)
            if (!apply(c, mutant)) return false;
        auto const hash = hash_of(mutant, id_);
        if (hash == original_hash_ || !all.seen.insert(hash_of(by.name, hash)).second) return false;
        auto const p = mutant.closed(storage_);
        auto const v = verdict(p, by, evaluates_);
        auto end = ending_of(p, by, wanted_, evaluates_, all.seed);
        if (end == ending::right && !v.ok() && !is_excused(v.fault, changes)) // rare: races that seldom show
            end = ending_of(p, by, wanted_, evaluates_, ~all.seed, 200);
        ++all.mutants;
        ++all.ends[static_cast<std::size_t>(end)];
        bool const harmless = end == ending::right, excused = v.ok() || is_excused(v.fault, changes);
        bool const in_any_order =
            !evaluates_ && v.fault == program_fault::sum_order && verify(p, by, gradient_order::any).ok();
        if (!harmless) {
            all.wrong.insert(hash);
            ++all.by_schedule[p.schedule];
            ++all.by_lowering[by.name];
            all.accepted += v.ok() && !in_any_order;
            all.accepted_in_any_order += in_any_order;
        } else if (v.ok()) {
            ++all.harmless_accepted;
        } else {
            ++all.harmless_refused;
            ++all.refused[describe(v.fault)];
        }
        if (harmless ? excused : in_any_order ? end == ending::sum_order : !v.ok()) return true;
        std::string text;
        for (auto const& c : changes) text += text_of(c) + "; ";
        CAPTURE(name_);
        CAPTURE(text);
        CAPTURE(std::string(by.name));
        INFO("the proof: ", std::string(describe(v.fault)), ", role ", v.role, ", task ", v.task);
        INFO("the machine: ", std::string(name_of(end)));
        FAIL_CHECK("the two do not agree, and no rule says why");
        return true;
    }

private:
    static open_program opened(step_program const& step, schedule_choice const& s, bool evaluates) {
        return open_program(evaluates ? built_evaluation(s, step).program : step);
    }

    std::vector<step_task> storage_;
    bool evaluates_;
    open_program original_;
    std::vector<std::uint64_t> wanted_;
    std::string name_;
    std::uint64_t id_ = 0, original_hash_ = 0;
};

constexpr std::size_t sweep_stride = sanitized ? 16 : 1; ///< one of so many changes is tried

/// A sweep judges all changes of one place.
void sweep(schedule_choice const& s, step_shape const& shape, tally& all, bool evaluates = false) {
    subject of(s, shape, evaluates);
    std::size_t n = all.seed % sweep_stride;
    for (auto const& by : lowerings)
        if (of.is_proved(by, all.seed))
            every_change(of.original(), [&](change const& c) {
                if (n++ % sweep_stride == 0) of.judge({c}, by, all);
            });
}

/// The lottery draws shapes and changes: of one place, two of them, both sides of a transfer, or the tails of all
/// roles.
class lottery {
public:
    explicit lottery(std::uint64_t seed) : random_(seed) {}

    void draw(built_in_schedule const& n, int mutants, tally& all) {
        auto const shape = some_shape(n.least);
        subject of(n.schedule, shape, below(8) == 0);
        for (auto const& by : lowerings) {
            bool const proved = of.is_proved(by, all.seed);
            for (int left = mutants, tries = 8 * mutants; proved && left > 0 && tries > 0; --tries)
                if (of.judge(some_changes(of.original()), by, all)) --left;
        }
    }

private:
    int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
    std::size_t some_of(std::size_t n) { return random_() % n; }

    step_shape some_shape(int least_for_role) {
        step_shape shape;
        shape.roles = 1 + below(8);
        auto const least = std::max(1, least_for_role * shape.roles);
        shape.micro_batches = least + below(17 - least);
        shape.replicas = 1 + below(2);
        shape.slices = 1 + below(2);
        shape.updates_on_the_way = shape.replicas > 1 && below(2) == 0;
        shape.measures = !shape.updates_on_the_way && below(2) == 0;
        shape.ties = !shape.updates_on_the_way && below(3) == 0;
        if (shape.micro_batches % 2 == 0 && shape.micro_batches / 2 >= least && below(3) == 0) shape.passes = 2;
        return shape;
    }
    change some_change(open_program const& p) {
        change c;
        c.what = static_cast<mutation>(below(mutations));
        do c.role = some_of(p.lists.size());
        while (p.lists[c.role].empty());
        c.task = some_of(p.lists[c.role].size());
        c.transfer = below(max_transfers);
        c.by = 1 + below(c.what == mutation::kind || below(4) == 0 ? 16 : 2);
        return c;
    }
    std::vector<change> some_changes(open_program const& p) {
        auto const first = some_change(p);
        std::vector<change> all = {first};
        auto const& list = p.lists[first.role];
        auto const& t = list[first.task];
        switch (below(4)) {
        case 0:
            break;
        case 1:
            all.push_back(some_change(p));
            break;
        case 2:
            if (first.transfer < t.transfers) other_side(p, all);
            break;
        default:
            if (first.task >= p.tails[first.role])
                in_all_tails(p, all);
            else if (first.task + 1 < list.size())
                all.push_back(first), ++all.back().task;
        }
        return all;
    }
    /// The other side of the transfer is changed likewise.
    static void other_side(open_program const& p, std::vector<change>& all) {
        auto c = all.front();
        auto const m = p.lists[c.role][c.task].moves[c.transfer];
        c.role = m.role;
        for (c.task = 0; c.task < p.lists[c.role].size(); ++c.task) {
            auto const& t = p.lists[c.role][c.task];
            for (c.transfer = 0; c.transfer < t.transfers; ++c.transfer)
                if (auto const& x = t.moves[c.transfer]; x.sends != m.sends && x.carries_as(m)) {
                    all.push_back(c);
                    return;
                }
        }
    }
    /// The tails of all other roles are changed likewise.
    static void in_all_tails(open_program const& p, std::vector<change>& all) {
        auto const first = all.front();
        for (std::size_t r = 0; r < p.lists.size(); ++r)
            if (r != first.role) {
                auto c = first;
                c.role = r;
                c.task = first.task - p.tails[first.role] + p.tails[r];
                all.push_back(c);
            }
    }

    std::mt19937_64 random_;
};

} // namespace

TEST_SUITE("schedule/pipeline_mutations") {
    TEST_CASE("every mutant that does not compute a step is refused; a harmless one only by a rule that says why") {
        INFO("TRIREME_TEST_SEED=", numbers::seed());
        tally all(numbers::seed());
        for (step_shape const& shape : {step_shape{1, 3, 2, 2},
                                        {3, 4, 2},
                                        {1, 2, 2, 2, false, true},
                                        {2, 2, 2, 2, false, true, 1, true},
                                        {1, 2, 2, 2, false, true, 1, true}})
            sweep(one_f_one_b{}, shape, all);
        for (step_shape const& shape : {step_shape{2, 4, 1, 1, false, false, 2}, {2, 2, 2, 1, true}})
            sweep(gpipe{}, shape, all);
        for (step_shape const& shape : {step_shape{2, 2, 1, 2, false, true}, {1, 2, 1, 1, false, false, 1, true}})
            sweep(folded{}, shape, all);
        sweep(eager_weights{}, {3, 3, 1, 1}, all);
        sweep(late_weights{}, {2, 3, 1, 1}, all);
        for (auto const& n : built_in_schedules)
            for (step_shape const& shape : {step_shape{2, 4}, {3, 6, 2, 2}, {2, 4, 1, 2, false, true, 1, true}})
                sweep(n.schedule, shape, all);
        for (auto const& n : {schedule_choice(one_f_one_b{}), schedule_choice(folded{})}) sweep(n, {3, 4}, all, true);
        lottery lots(all.seed);
        for (int i = 0; i < (sanitized ? 2 : 12); ++i)
            for (auto const& n : built_in_schedules) lots.draw(n, 40, all);
        MESSAGE(all.text());
        CHECK(all.accepted == 0);
        CHECK(all.wrong.size() >= (sanitized ? 4000 : 40000));
        for (auto const& by : lowerings) CHECK(all.by_lowering[by.name] >= (sanitized ? 500 : 5000));
        for (auto const& n : built_in_schedules) CHECK(all.by_schedule[n.schedule.name] > 0);
        for (std::size_t e = 0; e < endings; ++e) CHECK(all.ends[e] > 0);
    }
}

TEST_SUITE("nightly/schedule/pipeline_mutations") {
    TEST_CASE("mutants of large programs that do not compute a step are refused") {
        tally all(test_seed());
        INFO("TRIREME_TEST_SEED=", all.seed);
        lottery lots(all.seed);
        for (int i = 0; i < (sanitized ? 20 : 200); ++i)
            for (auto const& n : built_in_schedules) lots.draw(n, 60, all);
        MESSAGE(all.text());
        CHECK(all.accepted == 0);
        CHECK(all.wrong.size() >= (sanitized ? 4000 : 100000));
    }
}

} // namespace pipeline_mutations_test
