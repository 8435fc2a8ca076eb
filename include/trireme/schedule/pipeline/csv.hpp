// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/core/quoted.hpp>
#include <trireme/core/regular_file.hpp>
#include <trireme/schedule/pipeline/choice.hpp>
#include <trireme/schedule/pipeline/orders.hpp>
#include <trireme/schedule/pipeline/print.hpp>
#include <trireme/schedule/pipeline/program.hpp>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trireme {

// Pipeline schedules in the form in which PyTorch keeps them: a line for each rank, which is a role here, and in it a
// cell for each action, in order; empty cells are waiting. `2F0` is stage 2's forward of micro-batch 0, `2B0` its whole
// backward, `2I0` and `2W0` the halves by the input and by the weights; `2SEND_F0` and `3RECV_F0` are the two sides of
// a transfer of values, `3SEND_B0` and `2RECV_B0` of gradients. Source: torch.distributed.pipelining, PyTorch 2.15.

/// The cells of a schedule in a csv file.
enum class schedule_cells {
    compute,                 ///< forward and backward: PyTorch's "compute_only"
    compute_and_moves,       ///< sends and receives between ranks, too: PyTorch's "compute_comms"
    compute_moves_and_waits, ///< and the end of each send: "compute_comms" of PyTorch 2.15
};

namespace detail {

/// A cell of the file, and where it stands.
struct csv_action {
    scheduled_work work = {}; ///< without its chunk
    std::uint16_t stage = 0;
    std::uint32_t byte = 0;
    std::uint32_t cell = 0; ///< of its line, from 1
};

/// A word between the numbers of a cell.
struct csv_word {
    std::string_view text;
    scheduled_work work;
    bool of_micro_batch = true;
    bool is_left_out = false;
};
inline constexpr csv_word csv_words[] = {{"F", {task_kind::forward}},
                                         {"B", {task_kind::backward}},
                                         {"I", {task_kind::backward_input}},
                                         {"W", {task_kind::backward_weights}},
                                         {"SEND_F", {task_kind::move, 0, 0, true, false}},
                                         {"RECV_F", {task_kind::move, 0, 0, false, false}},
                                         {"SEND_B", {task_kind::move, 0, 0, true, true}},
                                         {"RECV_B", {task_kind::move, 0, 0, false, true}},
                                         {"WAIT_SEND_F", {}, true, true},
                                         {"WAIT_SEND_B", {}, true, true},
                                         {"UNSHARD", {}, false, true},
                                         {"RESHARD", {}, false, true},
                                         {"REDUCE_GRAD", {}, false, true},
                                         {"WAIT_REDUCE_GRAD", {}, false, true}};

/// Reads the cells of a schedule, and checks that they make lists of roles; whether these make a step is for verify.
/// Memory: at most 16 times the file. Nothing recurses.
class schedule_parser {
public:
    static constexpr std::size_t most_bytes = std::size_t{8} << 20;
    static constexpr std::size_t most_lines = 65535; ///< of a role: frames and slots have numbers of 16 bits

    schedule_parser(std::string_view text, std::string const& path) : text_(text), path_(path) {}

    TRIREME_COLD static void check_size(std::string const& path, std::uint64_t bytes) {
        if (bytes > most_bytes)
            throw data_error(path, 0,
                             "the schedule has " + std::to_string(bytes) + " bytes, and may have " +
                                 std::to_string(most_bytes) + ": leave out empty cells, or sends and receives");
    }

    TRIREME_COLD order_lists parsed() && {
        check_size(path_, text_.size());
        if (text_.starts_with("\xEF\xBB\xBF")) at_ = 3;
        while (at_ < text_.size()) read_line();
        if (begin_.size() == 1)
            throw data_error(path_, 0, "the file has no schedule: write a line for each role, such as 0F0,0B0");
        find_stages();
        find_micro_batches();
        check_moves();
        return lists();
    }

private:
    std::size_t roles() const { return begin_.size() - 1; }
    std::span<csv_action const> of_role(std::size_t r) const {
        return std::span(actions_).subspan(begin_[r], begin_[r + 1] - begin_[r]);
    }
    static bool is_blank(char c) noexcept { return c == ' ' || c == '\t' || c == '\r'; }

    [[noreturn]] TRIREME_COLD void fail(std::size_t line, std::size_t cell, std::size_t byte,
                                        std::string const& what) const {
        auto const rest = text_.substr(byte);
        auto shown = rest.substr(0, rest.find_first_of(",\n"));
        while (!shown.empty() && is_blank(shown.back())) shown.remove_suffix(1);
        throw data_error(path_, byte,
                         "line " + std::to_string(line) + ", cell " + std::to_string(cell) +
                             (shown.empty() ? "" : " (" + in_quotes(shown) + ")") + ": " + what);
    }
    [[noreturn]] void fail(std::size_t byte, std::string const& what) const { fail(roles() + 1, cell_, byte, what); }
    [[noreturn]] void fail(std::size_t role, csv_action const& a, std::string const& what) const {
        fail(role + 1, a.cell, a.byte, what);
    }

    TRIREME_COLD void read_line() {
        auto const begin = at_;
        auto const end = std::min(text_.find('\n', at_), text_.size());
        cell_ = 1;
        if (roles() == max_roles && text_.find_first_not_of(" \t\r\n", at_) != std::string_view::npos)
            fail(at_, "a role too many: a pipeline has at most " + std::to_string(max_roles) + ", one for each line");
        for (;; ++at_, ++cell_) {
            auto const stop = std::min(text_.find(',', at_), end);
            read_cell(at_, stop);
            at_ = stop;
            if (stop == end) break;
        }
        at_ = std::min(end + 1, text_.size());
        bool const computes = std::any_of(actions_.begin() + static_cast<std::ptrdiff_t>(begin_.back()), actions_.end(),
                                          [](csv_action const& a) { return a.work.kind != task_kind::move; });
        if (!computes) {
            if (text_.find_first_not_of(" \t\r\n", begin) == std::string_view::npos) {
                at_ = text_.size(); // empty lines at the end
                return;
            }
            cell_ = 1;
            fail(begin, "role " + std::to_string(roles()) +
                            " computes nothing: each line is a role's order; write its tasks, or delete the line");
        }
        begin_.push_back(actions_.size());
    }

    /// The cell that text_[from, end) holds, with blanks around it, and quotes.
    void read_cell(std::size_t from, std::size_t end) {
        trim(from, end);
        if (end - from >= 2 && text_[from] == '"' && text_[end - 1] == '"') trim(++from, --end);
        if (from == end) return;
        if (text_[from] != '(') return read_action(from, end);
        auto const close = text_.find(')', from);
        if (close >= end || text_.substr(close + 1, end - close - 1) != "OVERLAP_F_B")
            fail(from, "tasks in parentheses are written as (2F1;1B0)OVERLAP_F_B; each of them in a cell of its own "
                       "will do as well");
        for (auto at = from + 1; at <= close;) {
            auto stop = std::min(text_.find(';', at), close), next = stop + 1;
            trim(at, stop);
            if (at < stop) read_action(at, stop);
            at = next;
        }
    }
    void trim(std::size_t& from, std::size_t& end) const {
        while (from < end && is_blank(text_[from])) ++from;
        while (from < end && is_blank(text_[end - 1])) --end;
    }

    /// A stage's number, what it does, and the micro-batch's number.
    void read_action(std::size_t const from, std::size_t const end) {
        auto at = from;
        auto const digits = [&] {
            auto const begin = at;
            while (at < end && text_[at] >= '0' && text_[at] <= '9') ++at;
            return text_.substr(begin, at - begin);
        };
        auto const stage = digits();
        auto const begin = at;
        while (at < end && ((text_[at] >= 'A' && text_[at] <= 'Z') || text_[at] == '_')) ++at;
        auto const word = text_.substr(begin, at - begin);
        auto const micro_batch = digits();
        auto const* const known =
            std::find_if(std::begin(csv_words), std::end(csv_words), [&](csv_word const& w) { return w.text == word; });
        if (stage.empty() || known == std::end(csv_words) || at != end)
            fail(from, "this is no task: write a stage's number, F, B, I, W, SEND_F, RECV_F, SEND_B or RECV_B, and a "
                       "micro-batch's number, such as 0F1, and a comma between two tasks");
        csv_action a;
        a.byte = static_cast<std::uint32_t>(from);
        a.cell = static_cast<std::uint32_t>(cell_);
        a.work = known->work;
        a.stage = number(from, stage, max_roles * max_chunks - 1, "stage");
        if (known->of_micro_batch && micro_batch.empty())
            fail(from, "the micro-batch is missing: write its number behind " + std::string(word));
        if (known->of_micro_batch) a.work.micro_batch = number(from, micro_batch, most_lines - 1, "micro-batch");
        if (known->is_left_out) return;
        if (actions_.size() - begin_.back() == most_lines)
            fail(from, "a task too many: a role has at most " + std::to_string(most_lines));
        actions_.push_back(a);
    }
    std::uint16_t number(std::size_t byte, std::string_view digits, std::size_t most, char const* what) const {
        std::size_t value = 0;
        auto const [_, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
        if (error != std::errc{} || value > most)
            fail(byte,
                 "the number of the " + std::string(what) + " is too large: the greatest is " + std::to_string(most));
        return static_cast<std::uint16_t>(value);
    }

    /// Every stage is of one role, and roles have as many.
    TRIREME_COLD void find_stages() {
        for (std::size_t r = 0; r < roles(); ++r)
            for (auto const& a : of_role(r)) {
                if (a.work.kind == task_kind::move) continue;
                if (role_of_.size() <= a.stage) role_of_.resize(a.stage + 1u, nobody);
                auto& role = role_of_[a.stage];
                if (role != nobody && role != r)
                    fail(r, a,
                         "stage " + std::to_string(a.stage) + " is of role " + std::to_string(role) + " (line " +
                             std::to_string(role + 1) + "), too: give each stage to one role");
                role = static_cast<std::uint8_t>(r);
            }
        for (std::size_t s = 0; s < role_of_.size(); ++s)
            if (role_of_[s] == nobody) {
                auto const [r, a] = first([&](auto const& x) { return x.stage + 1u == role_of_.size(); });
                fail(r, a, "stages are numbered from 0 without gaps, and none computes stage " + std::to_string(s));
            }
        chunk_of_.resize(role_of_.size());
        for (std::size_t r = 0; r < roles(); ++r) {
            std::size_t count = 0;
            for (std::size_t s = 0; s < role_of_.size(); ++s)
                if (role_of_[s] == r) {
                    chunk_of_[s] = static_cast<std::uint8_t>(count++);
                    stages_.push_back(static_cast<std::uint16_t>(s));
                }
            if (r == 0) chunks_ = count;
            if (count > max_chunks || count != chunks_)
                fail(r, of_role(r)[0],
                     "role " + std::to_string(r) + " has " + std::to_string(count) +
                         (count == 1 ? " stage, and " : " stages, and ") +
                         (count > max_chunks ? "may have " + std::to_string(max_chunks)
                                             : "role 0 has " + std::to_string(chunks_)) +
                         ": give all roles as many, at most " + std::to_string(max_chunks));
        }
    }
    TRIREME_COLD void find_micro_batches() {
        std::vector<bool> computed(most_lines);
        for (auto const& a : actions_) {
            if (a.work.kind == task_kind::move) continue;
            computed[a.work.micro_batch] = true;
            micro_batches_ = std::max(micro_batches_, a.work.micro_batch + std::size_t{1});
        }
        for (std::size_t m = 0; m < micro_batches_; ++m)
            if (!computed[m]) {
                auto const [r, a] = first([&](auto const& x) {
                    return x.work.kind != task_kind::move && x.work.micro_batch + 1u == micro_batches_;
                });
                fail(r, a,
                     "micro-batches are numbered from 0 without gaps, and none computes micro-batch " +
                         std::to_string(m));
            }
    }
    /// The first action that `is` holds for, and its role.
    template<class Is>
    std::pair<std::size_t, csv_action> first(Is const& is) const {
        std::size_t i = 0, r = 0;
        while (i + 1 < actions_.size() && !is(actions_[i])) ++i;
        while (begin_[r + 1] <= i) ++r;
        return {r, actions_[i]};
    }
    /// Transfers are between stages of two roles; one of them is this one.
    TRIREME_COLD void check_moves() {
        for (std::size_t r = 0; r < roles(); ++r)
            for (auto const& a : of_role(r)) {
                if (a.work.kind != task_kind::move) continue;
                has_moves_ = true;
                auto const other = a.work.sends != a.work.gradient ? a.stage + 1 : a.stage - 1;
                auto const stage = "stage " + std::to_string(a.stage);
                if (a.stage >= role_of_.size() || role_of_[a.stage] != r)
                    fail(r, a,
                         "role " + std::to_string(r) + " does not compute " + stage +
                             ": a role sends and receives for its own stages");
                if (other < 0 || other >= static_cast<int>(role_of_.size()))
                    fail(r, a, stage + " has no stage on that side: leave the cell out");
                if (role_of_[static_cast<std::size_t>(other)] == r)
                    fail(r, a,
                         stage + " and stage " + std::to_string(other) +
                             " are of one role, which sends itself nothing: leave the cell out");
                if (a.work.micro_batch >= micro_batches_)
                    fail(r, a, "none computes this micro-batch: leave the cell out, or the other side's tasks in");
            }
    }
    TRIREME_COLD order_lists lists() {
        order_lists made;
        made.name = path_;
        made.chunks = static_cast<int>(chunks_);
        made.micro_batches = static_cast<int>(micro_batches_);
        made.has_moves = has_moves_;
        made.stages = std::move(stages_);
        made.begin = std::move(begin_);
        made.lines.reserve(actions_.size());
        for (auto& a : actions_) {
            a.work.chunk = chunk_of_[a.stage];
            made.lines.push_back(a.work);
        }
        return made;
    }

    static constexpr std::uint8_t nobody = 0xFF;

    std::string_view text_;
    std::string const& path_;
    std::size_t at_ = 0, cell_ = 1;
    std::vector<csv_action> actions_;
    std::vector<std::size_t> begin_ = {0};
    std::vector<std::uint8_t> role_of_, chunk_of_; ///< by stage
    std::vector<std::uint16_t> stages_;
    std::size_t chunks_ = 1, micro_batches_ = 0;
    bool has_moves_ = false;
};

} // namespace detail

/// The schedule that a text in PyTorch's csv form holds. `path` is its name, and that of the file in messages.
///
/// A line is a role's order. The places of the stages follow from it: a role's stages, as many on each role, are its
/// chunks in ascending order. If the text has sends and receives, they are kept as they stand, a receive is awaited
/// there, and verify judges them; without_moves() drops them. Actions in parentheses (OVERLAP_F_B) follow one another.
/// Left out are WAIT_SEND_F, WAIT_SEND_B, UNSHARD, RESHARD, REDUCE_GRAD and WAIT_REDUCE_GRAD: weights are always there,
/// gradients are added behind the last micro-batch, and a place that was sent from is used again only when what was
/// sent has been taken.
///
/// Errors: data_error, with line and cell, for a cell that is no such task, and for lines that are no lists of roles: a
/// stage of two roles or of none, roles with different numbers of stages, a micro-batch that is left out everywhere.
/// A proof that the lists make a training step is the caller's: build_step, then verify.
TRIREME_COLD inline schedule_orders parse_schedule_csv(std::string_view text, std::string const& path) {
    return schedule_orders(detail::schedule_parser(text, path).parsed());
}

/// Reads a schedule from a file of PyTorch's (parse_schedule_csv). Errors: data_error, also for a file that is missing,
/// no regular file or above 8 MiB. Memory: up to 64 times the file, and 10 KB, for the proofs that find the slots.
TRIREME_COLD inline schedule_orders read_schedule_csv(std::string const& path) {
    detail::regular_file const file(path);
    detail::schedule_parser::check_size(path, file.size());
    std::string text(static_cast<std::size_t>(file.size()), '\0');
    file.read(0, std::as_writable_bytes(std::span(text)));
    return parse_schedule_csv(text, path);
}

/// The micro-batches of a proved step as a text in PyTorch's csv form, which PyTorch reads: a line per role,
/// without empty cells. What the roles do behind the last micro-batch has no cells, and nor have transfers within a
/// role.
TRIREME_COLD inline std::string schedule_csv(step_program const& p, schedule_cells cells = schedule_cells::compute) {
    bool const moves = cells != schedule_cells::compute, waits = cells == schedule_cells::compute_moves_and_waits;
    std::string text;
    for (int r = 0; r < p.shape.roles; ++r) {
        std::string line;
        auto const add = [&](std::string const& cell) { line += (line.empty() ? "" : ",") + cell; };
        std::vector<std::string> sent; // what is still to be awaited
        for (auto const& t : p.list(r).first(p.tail[static_cast<std::size_t>(r)])) {
            if (t.computes()) detail::for_each_cell(p, r, t, add);
            for (int k = 0; moves && k < t.transfers; ++k) {
                if (t.moves[k].role == r) continue;
                auto const cell = detail::cell_of(t.moves[k]);
                add(cell);
                if (waits && t.moves[k].sends) {
                    auto const word = cell.find('S');
                    sent.push_back(cell.substr(0, word) + "WAIT_" + cell.substr(word));
                }
            }
        }
        for (auto const& wait : sent) add(wait);
        text += line + '\n';
    }
    return text;
}

} // namespace trireme
