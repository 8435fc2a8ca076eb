// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/schedule/pipeline/program.hpp>
#include <trireme/schedule/pipeline/verify.hpp>

#include <support/numbers.hpp>
#include <support/step_numbers.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <span>
#include <utility>
#include <vector>

// The second checker of step programs, a naive one: it computes.
namespace naive_steps {
using namespace trireme;
using namespace step_numbers;

/// An open program lets a test change its tasks.
struct open_program {
    step_program shape;
    std::vector<std::vector<step_task>> lists;
    std::vector<std::size_t> tails;

    explicit open_program(step_program const& p) : shape(p) {
        for (int r = 0; r < p.shape.roles; ++r) {
            auto const list = p.list(r);
            lists.emplace_back(list.begin(), list.end());
            tails.push_back(p.tail[r]);
        }
    }
    step_program closed(std::vector<step_task>& storage) const {
        auto p = shape;
        storage.clear();
        for (std::size_t r = 0; r < lists.size(); ++r) {
            storage.insert(storage.end(), lists[r].begin(), lists[r].end());
            p.begin[r + 1] = static_cast<std::uint32_t>(storage.size());
            p.tail[r] = static_cast<std::uint32_t>(tails[r]);
        }
        p.all = storage;
        return p;
    }
};

/// The hash covers all tasks, frames and slots of all roles, and `before`.
inline std::uint64_t hash_of(open_program const& p, std::uint64_t before) {
    auto h = before;
    auto const add = [&](auto... x) { h = made_of({h, static_cast<std::uint64_t>(x)...}); };
    for (std::size_t r = 0; r < p.lists.size(); ++r) {
        add(p.lists[r].size(), p.tails[r], p.shape.frames[r], p.shape.slots[r]);
        for (auto const& t : p.lists[r]) {
            add(t.kind, t.chunk, t.scales, t.updates, t.micro_batch, t.frame, t.slot, t.first, t.end, t.transfers);
            for (int k = 0; k < t.transfers; ++k) {
                auto const& m = t.moves[k];
                add(m.role, m.sends, m.gradient, m.boundary, m.micro_batch, m.place);
            }
        }
    }
    return h;
}

/// A step leaves these numbers if its stages have these sums of gradients: the parameters, slice by slice of each
/// stage, and the number that the roles share after their meetings.
inline std::vector<std::uint64_t> updated_by(step_program const& p, std::vector<std::uint64_t> const& sums) {
    auto const gradient = [&](std::uint64_t sum) { return p.shape.replicas > 1 ? made_of({is_reduced, sum}) : sum; };
    // a meeting makes one number of all slices of all roles, and of the number that the roles shared before
    auto const in_common = [&](task_kind kind, std::uint64_t before, auto const& of_stage) {
        std::uint64_t all = 0;
        for (int r = 0; r < p.shape.roles; ++r) {
            std::uint64_t own = 0;
            for (int i = 0; i < p.chunks * p.shape.slices; ++i)
                own = made_of({is_measured, own, before, of_stage(p.stage(r, i / p.shape.slices))});
            all = made_of({is_norm, static_cast<std::uint64_t>(kind), all, own});
        }
        return all;
    };
    auto const sum_of = [&](int stage) { return gradient(sums[static_cast<std::size_t>(stage)]); };
    std::uint64_t common = 0;
    for (auto const kind : {task_kind::add_tied, task_kind::measure})
        if (p.shape.meets_for(kind, p.stage_count())) common = in_common(kind, common, sum_of);
    auto const updated = [&](int stage) { return made_of({is_updated, common, sum_of(stage)}); };
    std::vector<std::uint64_t> all;
    for (int s = 0; s < p.stage_count(); ++s)
        for (int k = 0; k < p.shape.slices; ++k) all.push_back(updated(s));
    if (p.shape.meets_for(task_kind::copy_tied, p.stage_count()))
        common = in_common(task_kind::copy_tied, common, updated);
    for (int r = 0; r < p.shape.roles; ++r) all.push_back(common);
    return all;
}
/// A right step, or a right evaluation, leaves these numbers.
inline std::vector<std::uint64_t> expected(step_program const& p, bool evaluates) {
    auto const sums =
        sums_of(static_cast<std::size_t>(p.stage_count()), static_cast<std::size_t>(p.shape.micro_batches), evaluates);
    return evaluates ? sums : updated_by(p, sums);
}

/// A program ends right, or with the first thing that is wrong with it.
enum class ending : std::uint8_t {
    right,
    out_of_range, ///< a task names something that its role does not have
    never_ends,   ///< every role waits for another one, or has ended
    left_over,    ///< a message is for the next step
    misplaced,    ///< a task is done on the wrong side of the tail, where executors do something else
    count,        ///< a gradient is added never, or twice
    scale,        ///< a loss is weighted never, or twice
    values,       ///< a task computes on something else
    sum_order,    ///< gradients are added in another order, and nothing else is wrong
    parameters,   ///< gradients are right, and are not added, measured, tied or updated as they should be
    race          ///< right in one order of the roles, wrong in another one
};
inline constexpr int endings = 11;

constexpr char const* name_of(ending e) {
    constexpr char const* names[endings] = {"right", "out of range", "never ends", "left over",  "misplaced", "count",
                                            "scale", "values",       "sum order",  "parameters", "race"};
    return names[static_cast<std::size_t>(e)];
}

/// The interpreter executes a program on numbers that show their origin. A message reads its place as soon as it is
/// sent or as late as it is taken, at random. The interpreter checks no rule but that memory exists.
class interpreter {
public:
    interpreter(step_program const& p, lowering const& by, bool evaluates)
        : p_(p), by_(by), evaluates_(evaluates), roles_(size(p.shape.roles)), stages_(size(p.stage_count())),
          micro_batches_(size(p.shape.micro_batches)), slices_(size(p.shape.slices)) {}

    /// The roles take turns in an order that goes with the seed; the result is the end that they come to.
    ending run(std::uint64_t seed, std::vector<std::uint64_t> const& wanted) {
        if (!exists()) return ending::out_of_range;
        begin();
        seed_ = seed;
        std::vector<std::size_t> ahead(roles_); // roles in the order of their turns
        for (std::size_t r = 0; r < roles_; ++r) ahead[r] = seed % 4 == 1 ? roles_ - 1 - r : r;
        for (std::size_t r = roles_; r > 1 && seed % 4 == 2; --r) std::swap(ahead[r - 1], ahead[below(r)]);
        std::vector<bool> waits(roles_, false);
        for (std::size_t waiting = 0; waiting < roles_;) {
            if (seed % 4 == 3) std::swap(ahead[0], ahead[below(roles_)]);
            auto const r = *std::find_if(ahead.begin(), ahead.end(), [&](std::size_t role) { return !waits[role]; });
            if (next_[r] < list(r).size() && one(r)) {
                std::fill(waits.begin(), waits.end(), false);
                waiting = 0;
            } else {
                waits[r] = true;
                ++waiting;
            }
            if (misplaced_) return ending::misplaced;
        }
        return end(wanted);
    }

private:
    struct place {
        frame f;
        std::size_t stage = npos, micro_batch = npos; ///< whose values have come here
        bool kept = false;                            ///< a forward pass of training has left what backward needs
        bool halved = false;                          ///< backward_input has left what backward_weights needs
        std::uint64_t halved_dy = 0;                  ///< the gradient that it was given
        int leaving = 0;                              ///< messages that have not been taken
        bool holds(std::size_t s, std::size_t m) const { return stage == s && micro_batch == m; }
    };
    struct slot {
        std::uint64_t value = 14;
        std::size_t stage = npos, micro_batch = npos;
        int leaving = 0;
    };
    struct message {
        std::size_t role;
        stage_transfer what;
        bool is_read;
        std::uint64_t value;
    };
    struct queue {
        std::vector<message> all;
        std::size_t taken = 0;
    };

    template<class N>
    static constexpr std::size_t size(N n) {
        return static_cast<std::size_t>(n);
    }
    std::span<step_task const> list(std::size_t r) const { return p_.list(static_cast<int>(r)); }
    std::size_t stage(std::size_t r, std::size_t chunk) const {
        return size(p_.stage(static_cast<int>(r), static_cast<int>(chunk)));
    }
    std::size_t chunks() const { return size(p_.chunks); }

    std::size_t below(std::size_t n) { return made_of({0xD1CE, seed_, ++drawn_}) % n; }

    /// True if tasks name nothing but what their roles have.
    bool exists() const {
        std::vector<std::size_t> owner(stages_, npos);
        for (std::size_t r = 0; r < roles_; ++r)
            for (std::size_t c = 0; c < chunks(); ++c) {
                auto const s = stage(r, c);
                if (s >= stages_ || owner[s] != npos) return false;
                owner[s] = r;
            }
        for (std::size_t r = 0; r < roles_; ++r)
            for (auto const& t : list(r)) {
                if (is_of_slices(t.kind) && t.end > chunks() * slices_) return false;
                if (t.computes()) {
                    if (t.chunk >= chunks() || t.micro_batch >= micro_batches_ || t.frame >= p_.frames[r]) return false;
                    if (gives_input(t.kind) && stage(r, t.chunk) > 0 && t.slot >= p_.slots[r]) return false;
                    if (t.kind == task_kind::train && stages_ > 1) return false; // a stage has no loss of its own
                }
                if (t.kind != task_kind::move) continue;
                if (t.transfers > max_transfers) return false;
                for (std::size_t k = 0; k < t.transfers; ++k) {
                    auto const& m = t.moves[k];
                    if (m.role >= roles_ || m.micro_batch >= micro_batches_ || m.boundary + 1u >= stages_) return false;
                    if (owner[size(m.sends ? m.from() : m.to())] != r) return false;
                    if (m.place >= (m.sends && m.gradient ? p_.slots[r] : p_.frames[r])) return false;
                }
            }
        return true;
    }

    void begin() {
        frames_.assign(roles_, {});
        slots_.assign(roles_, {});
        for (std::size_t r = 0; r < roles_; ++r) {
            frames_[r].assign(p_.frames[r], {});
            slots_[r].assign(p_.slots[r], {});
        }
        queues_.clear();
        next_.assign(roles_, 0);
        posted_.assign(roles_, false);
        received_.assign(roles_, 0);
        unread_.assign(roles_, 0);
        sums_.assign(stages_, 0);
        added_.assign(stages_ * micro_batches_, 0);
        weighted_.assign(micro_batches_, 0);
        gradients_.assign(stages_ * micro_batches_, 0);
        reduced_.assign(stages_ * slices_, 0);
        times_reduced_.assign(stages_ * slices_, 0);
        parameters_.assign(stages_ * slices_, 0);
        common_.assign(roles_, 0);
        for (std::size_t k = 0; k < meetings; ++k) came_[k].assign(roles_, 0), told_[k].assign(roles_, 0);
        misplaced_ = false;
        drawn_ = 0;
    }

    /// The role tries its next task. False: the task waits, and nothing has happened.
    bool one(std::size_t r) {
        auto const& t = list(r)[next_[r]];
        bool const in_tail = next_[r] >= p_.tail[r];
        misplaced_ = evaluates_ ? in_tail || is_of_slices(t.kind) : is_of_slices(t.kind) != in_tail;
        bool happened = false;
        bool const done = misplaced_                  ? false
                          : t.kind == task_kind::move ? move(t, r, happened)
                          : t.computes()              ? compute_one(t, r)
                          : is_meeting(t.kind)        ? meet(t, r, happened)
                                                      : finish(t, r);
        if (done) ++next_[r], posted_[r] = false, received_[r] = 0;
        return done || happened;
    }

    queue& queue_of(std::size_t from, std::size_t to, stage_transfer const& m) {
        return queues_[{from * roles_ + to, by_.one_queue ? 0 : 1 + m.way()}];
    }
    /// The number stands for a value that is found where another one is wanted: no right step has it.
    static std::uint64_t not_that(std::uint64_t value) { return made_of({0x07E5, value}); }

    std::uint64_t read(std::size_t r, stage_transfer const& m) const {
        auto const s = size(m.from());
        if (m.gradient) {
            auto const& from = slots_[r][m.place];
            return from.stage == s && from.micro_batch == m.micro_batch ? from.value : not_that(from.value);
        }
        auto const& from = frames_[r][m.place];
        return from.holds(s, m.micro_batch) ? from.f.y : not_that(from.f.y);
    }
    /// Sends are posted. Receives follow one another; where a move is a rendezvous they are posted, too, and it ends
    /// when all it sends has been taken.
    bool move(step_task const& t, std::size_t r, bool& happened) {
        if (!posted_[r]) {
            for (std::size_t k = 0; k < t.transfers; ++k)
                if (auto const& m = t.moves[k]; m.sends) {
                    bool const now = below(2) == 0;
                    queue_of(r, m.role, m).all.push_back({r, m, now, now ? read(r, m) : 0});
                    ++(m.gradient ? slots_[r][m.place].leaving : frames_[r][m.place].leaving);
                    ++unread_[r];
                }
            posted_[r] = happened = true;
        }
        bool all = true;
        std::vector<queue*> earlier; // receives that still wait: a later one of the same queue is behind them
        for (std::size_t k = 0; k < t.transfers; ++k) {
            auto const& m = t.moves[k];
            if (m.sends || (received_[r] >> k & 1u) != 0) continue;
            auto& q = queue_of(m.role, r, m);
            if (q.taken == q.all.size() || std::find(earlier.begin(), earlier.end(), &q) != earlier.end() ||
                (!m.gradient && frames_[r][m.place].leaving != 0)) {
                if (!by_.rendezvous) return false;
                all = false;
                earlier.push_back(&q);
                continue;
            }
            take(q.all[q.taken++], r, m);
            received_[r] |= 1u << k;
            happened = true;
        }
        return all && (!by_.rendezvous || unread_[r] == 0);
    }
    void take(message const& from, std::size_t r, stage_transfer const& m) {
        auto value = from.is_read ? from.value : read(from.role, from.what);
        --(from.what.gradient ? slots_[from.role][from.what.place].leaving
                              : frames_[from.role][from.what.place].leaving);
        --unread_[from.role];
        if (!from.what.carries_as(m)) value = not_that(value); // another micro-batch has another size
        auto& to = frames_[r][m.place];
        if (m.gradient) {
            to.f.dy = to.holds(size(m.to()), m.micro_batch) ? value : not_that(value);
            return;
        }
        to.f.x = value;
        to.stage = size(m.to());
        to.micro_batch = m.micro_batch;
        to.kept = to.halved = false;
    }

    bool compute_one(step_task const& t, std::size_t r) {
        auto const s = stage(r, t.chunk);
        auto const m = s * micro_batches_ + t.micro_batch;
        bool const forward = goes_forward(t.kind) || t.kind == task_kind::evaluate, last = s + 1 == stages_;
        auto& at = frames_[r][t.frame];
        auto* const to = gives_input(t.kind) && s > 0 ? &slots_[r][t.slot] : nullptr;
        if (to != nullptr && to->leaving != 0) return false;
        if (forward && s == 0) {
            if (at.leaving != 0) return false;
            at.stage = s;
            at.micro_batch = t.micro_batch;
            at.halved = false;
        }
        if (!at.holds(s, t.micro_batch)) at.f.x = not_that(at.f.x);
        if (!forward && !at.kept) at.f.x = not_that(at.f.x);
        if (t.kind == task_kind::backward_weights && !(at.halved && at.halved_dy == at.f.dy))
            at.f.dy = not_that(at.f.dy);
        compute(t, s, stages_, at.f, to != nullptr ? &to->value : nullptr, sums_[s]);
        if (to != nullptr) to->stage = s, to->micro_batch = t.micro_batch;
        if (forward) {
            if ((t.kind == task_kind::evaluate) != evaluates_) at.f.y = not_that(at.f.y); // the other mode of layers
            at.kept = t.kind != task_kind::evaluate;
        }
        if (gives_input(t.kind)) at.halved = true, at.halved_dy = at.f.dy;
        if (t.scales && (!forward || t.kind == task_kind::train)) ++weighted_[t.micro_batch];
        if (gives_weights(t.kind)) {
            ++added_[m];
            gradients_[m] = made_of({is_weight_gradient, s, t.micro_batch, at.f.x, at.f.y, at.f.dy});
        }
        if (t.kind == task_kind::evaluate && last) ++added_[m], gradients_[m] = at.f.y;
        return true;
    }

    std::uint64_t gradient(std::size_t s, std::size_t i) const {
        return times_reduced_[i] != 0 ? reduced_[i] : sums_[s];
    }
    template<class F>
    void each_slice(step_task const& t, std::size_t r, F&& f) const {
        for (std::size_t i = t.first; i < t.end; ++i) {
            auto const s = stage(r, i / slices_);
            f(s, s * slices_ + i % slices_);
        }
    }
    bool meet(step_task const& t, std::size_t r, bool& happened) {
        auto const kind = static_cast<std::size_t>(t.kind) - static_cast<std::size_t>(task_kind::add_tied);
        auto& of = came_[kind];
        if (!posted_[r]) {
            std::uint64_t own = 0;
            each_slice(t, r, [&](std::size_t s, std::size_t i) {
                own = made_of(
                    {is_measured, own, common_[r], t.kind == task_kind::copy_tied ? parameters_[i] : gradient(s, i)});
            });
            told_[kind][r] = own;
            ++of[r];
            posted_[r] = happened = true;
        }
        if (std::any_of(of.begin(), of.end(), [&](int times) { return times < of[r]; })) return false;
        common_[r] = 0;
        for (auto const of_role : told_[kind])
            common_[r] = made_of({is_norm, static_cast<std::uint64_t>(t.kind), common_[r], of_role});
        return true;
    }
    bool finish(step_task const& t, std::size_t r) {
        each_slice(t, r, [&](std::size_t s, std::size_t i) {
            if (t.kind == task_kind::collective) {
                reduced_[i] = made_of({is_reduced, gradient(s, i)});
                ++times_reduced_[i];
            }
            if (t.kind == task_kind::update || t.updates)
                parameters_[i] = parameters_[i] * 3 + made_of({is_updated, common_[r], gradient(s, i)});
        });
        return true;
    }

    ending end(std::vector<std::uint64_t> const& wanted) const {
        for (std::size_t r = 0; r < roles_; ++r)
            if (next_[r] < list(r).size()) return ending::never_ends;
        for (auto const& [key, q] : queues_)
            if (q.taken < q.all.size()) return ending::left_over;
        auto all = evaluates_ ? sums_ : parameters_;
        if (!evaluates_) all.insert(all.end(), common_.begin(), common_.end());
        return all == wanted ? ending::right : reason(all);
    }
    /// The reason tells apart numbers that are wrong.
    ending reason(std::vector<std::uint64_t> const& all) const {
        for (std::size_t s = evaluates_ ? stages_ - 1 : 0; s < stages_; ++s)
            for (std::size_t m = 0; m < micro_batches_; ++m)
                if (added_[s * micro_batches_ + m] != 1) return ending::count;
        for (auto const times : weighted_)
            if (!evaluates_ && times != 1) return ending::scale;
        auto const right = sums_of(stages_, micro_batches_, evaluates_);
        for (std::size_t s = evaluates_ ? stages_ - 1 : 0; s < stages_; ++s) {
            std::uint64_t in_order = 0;
            for (std::size_t m = 0; m < micro_batches_; ++m)
                in_order = made_of({is_sum, in_order, gradients_[s * micro_batches_ + m]});
            if (in_order != right[s]) return ending::values;
        }
        return all == (evaluates_ ? sums_ : updated_by(p_, sums_)) ? ending::sum_order : ending::parameters;
    }

    static constexpr std::size_t meetings = 4; ///< kinds from add_tied to copy_tied

    step_program const& p_;
    lowering by_;
    bool evaluates_;
    std::size_t roles_, stages_, micro_batches_, slices_;
    std::uint64_t seed_ = 0, drawn_ = 0;
    std::vector<std::vector<place>> frames_;
    std::vector<std::vector<slot>> slots_;
    std::map<std::pair<std::size_t, std::size_t>, queue> queues_;
    std::vector<std::size_t> next_;
    std::vector<bool> posted_;       ///< the sends of the role's next task, or its coming to a meeting
    std::vector<unsigned> received_; ///< transfers of the next task, a bit each
    std::vector<int> unread_;        ///< messages of a role that have not been taken
    std::vector<std::uint64_t> sums_, gradients_, reduced_, parameters_, common_;
    std::vector<int> added_, weighted_, times_reduced_;
    std::vector<int> came_[meetings]; ///< how often a role has come
    std::vector<std::uint64_t> told_[meetings];
    bool misplaced_ = false;
};

/// The program is executed in `times` orders of its roles; the result is the first end that is wrong.
inline ending ending_of(step_program const& p, lowering const& by, std::vector<std::uint64_t> const& wanted,
                        bool evaluates, std::uint64_t seed, int times = 4) {
    interpreter machine(p, by, evaluates);
    for (int i = 0; i < times; ++i)
        if (auto const e = machine.run(4 * seed + static_cast<std::uint64_t>(i), wanted); e != ending::right)
            return i == 0 ? e : ending::race;
    return ending::right;
}

/// True if a program is a training step, or an evaluation, in some orders of its roles.
inline bool computes(step_program const& p, lowering const& by, bool evaluates = false,
                     std::uint64_t seed = numbers::seed()) {
    return ending_of(p, by, expected(p, evaluates), evaluates, seed) == ending::right;
}

} // namespace naive_steps
