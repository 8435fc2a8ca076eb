// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/schedule/collective/bidirectional_ring.hpp>
#include <trireme/schedule/collective/chain.hpp>
#include <trireme/schedule/collective/direct.hpp>
#include <trireme/schedule/collective/double_binary_tree.hpp>
#include <trireme/schedule/collective/hierarchical.hpp>
#include <trireme/schedule/collective/recursive_halving_doubling.hpp>
#include <trireme/schedule/collective/ring.hpp>
#include <trireme/schedule/messages.hpp>
#include <trireme/schedule/verify.hpp>

#include <support/compare.hpp>
#include <support/host_collectives.hpp>

#include <doctest/doctest.h>

#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <string_view>

namespace schedule_messages_test {
using namespace trireme;
using test_host_collectives::buffers;
using test_host_collectives::index;
using test_host_collectives::inputs;
using test_support::same_bits;

template<class T>
T poison() {
    if constexpr (std::is_integral_v<T>)
        return std::numeric_limits<T>::min() / 2;
    else
        return std::numeric_limits<T>::quiet_NaN();
}

/// Every rank's buffer after the schedule.
template<class T>
buffers<T> pulled(schedule const& s, buffers<T> data) {
    test_host_collectives::pull(s, {0, data[0].size()}, data);
    return data;
}

/// A rank does this, group by group.
struct half {
    int number = 0;
    std::vector<round_message> messages;
    std::vector<round_sum> sums; ///< when all messages are over
};
using program = std::vector<half>;

std::vector<program> programs_of(message_schedule const& all) {
    std::vector<program> programs(index(all.ranks));
    for (int r = 0; r < all.ranks; ++r)
        for (std::size_t k = 0; k < all.rounds.size(); ++k) {
            auto const& round = all.rounds[k];
            for (auto const* list : {&round.reads, &round.pushes}) {
                half h{static_cast<int>(2 * k) + (list == &round.pushes), {}, {}};
                for (auto const& m : *list)
                    if (m.from == r || m.to == r) h.messages.push_back(m);
                for (auto const& sum : round.sums)
                    if (list == &round.reads && sum.rank == r) h.sums.push_back(sum);
                if (!h.messages.empty() || !h.sums.empty()) programs[index(r)].push_back(h);
            }
        }
    return programs;
}

enum class ending { complete, deadlock, mismatch };

/// Ranks that have nothing but messages without buffers, and no common clock: a message moves when both its ends are in
/// a group that has it, in any order between pairs and in order within one.
template<class T>
class group {
public:
    group(message_schedule const& all, std::vector<program> programs, buffer_cut const& cut, schedule const& s,
          buffers<T> const& in, bool in_place)
        : all_(all), programs_(std::move(programs)), cut_(cut), in_place_(in_place), in_(in), out_(in),
          at_(programs_.size()), sent_(programs_.size()) {
        for (auto& o : out_)
            if (!in_place) std::fill(o.begin(), o.end(), poison<T>());
        for (int r = 0; r < all.ranks; ++r) staging_.emplace_back(staging_bytes(s, cut, r) / sizeof(T), poison<T>());
        for (std::size_t r = 0; r < programs_.size(); ++r) begin(static_cast<int>(r));
    }

    ending run(std::uint64_t seed) {
        std::mt19937_64 random(seed);
        std::vector<std::pair<int, int>> able;
        for (;;) {
            able.clear();
            for (int a = 0; a < all_.ranks; ++a)
                for (int b = 0; b < all_.ranks; ++b)
                    if (a != b && next(a, a, b) != nullptr && next(b, a, b) != nullptr) able.emplace_back(a, b);
            if (able.empty()) break;
            auto const [from, to] = able[random() % able.size()];
            if (!move(from, to)) return ending::mismatch;
            settle(from);
            settle(to);
        }
        for (std::size_t r = 0; r < programs_.size(); ++r)
            if (at_[r] != programs_[r].size()) return ending::deadlock;
        return ending::complete;
    }

    buffers<T> const& out() const { return out_; }

private:
    half const* current(int rank) const {
        auto const& p = programs_[index(rank)];
        return at_[index(rank)] < p.size() ? &p[at_[index(rank)]] : nullptr;
    }
    void begin(int rank) {
        if (auto const* h = current(rank)) sent_[index(rank)].assign(h->messages.size(), false);
        settle(rank);
    }
    /// The first message from `from` to `to` in the group that `rank` is in. A group knows nothing of rounds.
    round_message const* next(int rank, int from, int to) const {
        auto const* h = current(rank);
        for (std::size_t i = 0; h != nullptr && i < h->messages.size(); ++i)
            if (!sent_[index(rank)][i] && h->messages[i].from == from && h->messages[i].to == to)
                return &h->messages[i];
        return nullptr;
    }
    bool move(int from, int to) {
        auto const& sent = *next(from, from, to);
        auto const& got = *next(to, from, to);
        auto const source = elements_of(cut_, sent.read, sent.count), goal = elements_of(cut_, got.first, got.count);
        if (source.size() != goal.size()) return false;
        auto const& data = sent.written || in_place_ ? out_ : in_;
        auto const* const read = data[index(from)].data() + source.begin;
        auto* write = out_[index(to)].data() + goal.begin;
        if (got.added) {
            auto const& round = all_.rounds[index(current(to)->number / 2)];
            auto const place = staged_at(round, to, got.first, cut_);
            auto const begin = (place.offset + index(got.source) * place.stride) / sizeof(T);
            if (begin + goal.size() > staging_[index(to)].size()) return false;
            write = staging_[index(to)].data() + begin;
        }
        if (goal.size() != 0) std::memcpy(write, read, goal.size() * sizeof(T));
        for (int const r : {from, to}) {
            auto const* const m = next(r, from, to);
            sent_[index(r)][static_cast<std::size_t>(m - current(r)->messages.data())] = true;
        }
        return true;
    }
    /// Leaves the group if all of it is over.
    void settle(int rank) {
        auto const* const h = current(rank);
        if (h == nullptr) return;
        for (bool const over : sent_[index(rank)])
            if (!over) return;
        auto& staging = staging_[index(rank)];
        for (auto const& sum : h->sums) {
            auto const piece = elements_of(cut_, sum.first, sum.count);
            auto const place = staged_at(all_.rounds[index(h->number / 2)], rank, sum.first, cut_);
            auto const& own = sum.written || in_place_ ? out_ : in_;
            for (std::size_t e = 0; e < piece.size(); ++e) {
                T x = own[index(rank)][piece.begin + e];
                for (int k = 0; k < sum.sources; ++k)
                    x += staging[(place.offset + index(k) * place.stride) / sizeof(T) + e];
                out_[index(rank)][piece.begin + e] = x;
            }
        }
        std::fill(staging.begin(), staging.end(), poison<T>());
        ++at_[index(rank)];
        begin(rank);
    }

    message_schedule const& all_;
    std::vector<program> programs_;
    buffer_cut cut_;
    bool in_place_;
    buffers<T> in_, out_, staging_;
    std::vector<std::size_t> at_;
    std::vector<std::vector<bool>> sent_;
};

struct named {
    char const* name;
    schedule (*all_reduce)(int ranks);
};
template<class S>
constexpr named strategy_named() {
    return {S::name, [](int ranks) { return schedule_of<S, collective::all_reduce>(ranks); }};
}
constexpr named strategies[] = {strategy_named<ring>(),
                                strategy_named<direct>(),
                                strategy_named<bidirectional_ring>(),
                                strategy_named<recursive_halving_doubling>(),
                                strategy_named<double_binary_tree>(),
                                strategy_named<chain>(),
                                strategy_named<hierarchical<ring, ring>>(),
                                strategy_named<hierarchical<direct, ring>>(),
                                strategy_named<hierarchical<double_binary_tree, recursive_halving_doubling>>(),
                                strategy_named<hierarchical<ring, hierarchical<direct, chain>>>()};
constexpr int sizes[] = {1, 2, 3, 4, 5, 6, 7, 8, 12, 16};

template<class T>
void compare(schedule const& s, std::size_t elements) {
    CAPTURE(elements);
    buffer_cut const cut{elements, sizeof(T), s.chunks};
    auto const in = inputs<T>(s.ranks, elements);
    auto const wanted = pulled(s, in);
    auto const all = messages_of(s);
    for (bool const in_place : {true, false}) {
        if (s.ranks == 1 && !in_place) continue; // nothing moves, not even to the output
        CAPTURE(in_place);
        for (std::uint64_t seed = 0; seed < 3; ++seed) {
            group<T> g(all, programs_of(all), cut, s, in, in_place);
            CHECK(g.run(seed) == ending::complete);
            CHECK(same_bits(g.out(), wanted));
        }
    }
    for (int r = 0; r < s.ranks; ++r) {
        auto const counted = traffic_of(all, r, cut), priced = traffic_of(s, r, cut);
        CHECK(counted.messages == priced.messages);
        CHECK(counted.bytes == priced.bytes);
    }
}

/// True if a lowering that has been changed still does what it should, for all seeds that are tried.
bool right(schedule const& s, message_schedule const& all, std::vector<program> const& programs) {
    std::size_t const elements = 16 * index(s.chunks) + 5;
    buffer_cut const cut{elements, sizeof(float), s.chunks};
    auto const in = inputs<float>(s.ranks, elements);
    for (std::uint64_t seed = 0; seed < 3; ++seed) {
        group<float> g(all, programs, cut, s, in, true);
        if (g.run(seed) != ending::complete || !same_bits(g.out(), pulled(s, in))) return false;
    }
    return true;
}

TEST_SUITE("schedule/messages") {
    TEST_CASE("every strategy gives the bits and the traffic of the schedule that pulls, in place or not") {
        for (auto const& strategy : strategies)
            for (int const n : sizes) {
                auto const s = strategy.all_reduce(n);
                CAPTURE(std::string(strategy.name));
                CAPTURE(n);
                REQUIRE(verify(collective::all_reduce, s, n).ok());
                for (std::size_t const elements :
                     {std::size_t{0}, std::size_t{1}, std::size_t{17}, 16 * index(s.chunks) + 5, 64 * index(s.chunks)})
                    compare<float>(s, elements);
                compare<int>(s, 33 * index(s.chunks));
            }
    }

    TEST_CASE("a group of a round has a message at both of its ends, and in one order") {
        for (auto const& strategy : strategies)
            for (int const n : sizes) {
                auto const all = messages_of(strategy.all_reduce(n));
                for (auto const& round : all.rounds)
                    for (auto const* list : {&round.reads, &round.pushes})
                        for (std::size_t i = 0; i < list->size(); ++i) {
                            auto const& m = (*list)[i];
                            CHECK(m.from != m.to);
                            CHECK(m.count >= 1);
                            if (i == 0) continue;
                            auto const& b = (*list)[i - 1];
                            CHECK(std::tie(b.from, b.to, b.first) < std::tie(m.from, m.to, m.first));
                        }
            }
    }

    TEST_CASE("other collectives are lowered by the same rule") {
        for (int n = 2; n <= 8; ++n) {
            CAPTURE(n);
            schedule const others[] = {ring::reduce_scatter(n),
                                       ring::all_gather(n),
                                       direct::reduce(n, n - 1),
                                       recursive_halving_doubling::all_gather(n),
                                       double_binary_tree::broadcast(n, 1 % n),
                                       hierarchical<ring, ring>::reduce_scatter(n),
                                       direct::reduce_scatter(n)};
            for (auto const& s : others) {
                auto const all = messages_of(s);
                CHECK(right(s, all, programs_of(all)));
            }
            auto const s = direct::all_to_all(n);
            auto const all = messages_of(s);
            std::size_t const elements = 20 * index(n);
            buffer_cut const cut{elements, sizeof(int), s.chunks, n};
            auto const in = inputs<int>(n, elements);
            group<int> g(all, programs_of(all), cut, s, in, false);
            CHECK(g.run(1) == ending::complete);
            bool moved = true;
            for (int a = 0; a < n; ++a)
                for (int b = 0; b < n; ++b)
                    for (std::size_t e = 0; a != b && e < 20; ++e)
                        moved = moved && g.out()[index(a)][20 * index(b) + e] == in[index(b)][20 * index(a) + e];
            CHECK(moved);
        }
    }

    TEST_CASE("what a rank has half in its input and half in its output is added by two sums") {
        schedule const s{"half and half", 3, 2, 4, [](int, int rank, int i) -> collective_step {
                             if (rank != 0)
                                 return i == 3 ? collective_step{step_kind::copy, {0, 2}, one_rank(0), 3}
                                               : collective_step{};
                             if (i == 0) return {step_kind::reduce, 0, one_rank(1), 0};
                             if (i == 1) return {step_kind::reduce, {0, 2}, one_rank(2), 0};
                             if (i == 2) return {step_kind::reduce, 1, one_rank(1), 0};
                             return {step_kind::wait, 0, all_others(0, 3), 4};
                         }};
        REQUIRE(verify(collective::all_reduce, s, 3).ok());
        compare<float>(s, 37);
    }

    TEST_CASE("a schedule of another strategy, size or root has other steps") {
        auto const s = direct::reduce(4, 1);
        CHECK(s.same_steps(direct::reduce(4, 1)));
        CHECK_FALSE(s.same_steps(direct::reduce(4, 2)));
        CHECK_FALSE(s.same_steps(direct::reduce(5, 1)));
        CHECK_FALSE(s.same_steps(direct::all_reduce(4)));
    }

    TEST_CASE("what a rank stages is its largest reduction") {
        buffer_cut const cut{1001, 4, 4}; // the last chunk is no multiple of 16 bytes
        auto const s = direct::all_reduce(4);
        for (int r = 0; r < 4; ++r) // three sources of its own chunk, each on 16 bytes
            CHECK(staging_bytes(s, cut, r) == 3 * round_up<std::size_t>(cut.at(r).size() * 4, 16));
        CHECK(staging_bytes(ring::all_reduce(1), {1000, 4, 1}, 0) == 0);
        CHECK(staging_bytes(chain::all_reduce(3), {1000, 4, 8}, 2) == 0); // the far end only sends, then copies
    }

    TEST_CASE("a message too few is found, at both ends or at one") {
        for (auto const& strategy : strategies)
            for (int const n : {2, 3, 4, 6}) {
                // the root of the second tree has the sum before its part comes back to it: a message to spare
                if (std::string_view(strategy.name) ==
                    hierarchical<double_binary_tree, recursive_halving_doubling>::name)
                    continue;
                auto const s = strategy.all_reduce(n);
                auto const all = messages_of(s);
                CAPTURE(std::string(strategy.name));
                CAPTURE(n);
                auto const whole = programs_of(all);
                REQUIRE(right(s, all, whole));
                for (std::size_t k = 0; k < all.rounds.size(); ++k)
                    for (auto list : {&message_round::reads, &message_round::pushes})
                        for (std::size_t i = 0; i < (all.rounds[k].*list).size(); ++i) {
                            auto less = all;
                            auto& messages = less.rounds[k].*list;
                            auto const gone = messages[i];
                            messages.erase(messages.begin() + static_cast<std::ptrdiff_t>(i));
                            CHECK_FALSE(right(s, less, programs_of(less)));
                            auto one_end = whole; // the receiver's
                            for (auto& h : one_end[index(gone.to)]) {
                                if (h.number != static_cast<int>(2 * k) + (list == &message_round::pushes)) continue;
                                std::erase_if(h.messages, [&](round_message const& m) {
                                    return m.from == gone.from && m.to == gone.to && m.first == gone.first;
                                });
                            }
                            CHECK_FALSE(right(s, all, one_end));
                        }
            }
    }

    TEST_CASE("sums in another order are found") {
        auto const s = direct::all_reduce(4);
        auto all = messages_of(s);
        for (auto& m : all.rounds[0].reads) m.source = 2 - m.source;
        CHECK_FALSE(right(s, all, programs_of(all)));
    }

    TEST_CASE("one order of messages at one end and another at the other is found") {
        auto const s = recursive_halving_doubling::all_gather(5); // all blocks but one, so from both sides of it
        auto const all = messages_of(s);
        auto const whole = programs_of(all);
        REQUIRE(right(s, all, whole));
        int pairs = 0;
        for (std::size_t r = 0; r < whole.size(); ++r)
            for (std::size_t h = 0; h < whole[r].size(); ++h)
                for (std::size_t i = 0; i + 1 < whole[r][h].messages.size(); ++i) {
                    auto const &a = whole[r][h].messages[i], &b = whole[r][h].messages[i + 1];
                    if (a.from != b.from || a.to != b.to) continue;
                    auto turned = whole;
                    std::swap(turned[r][h].messages[i], turned[r][h].messages[i + 1]);
                    CHECK_FALSE(right(s, all, turned));
                    ++pairs;
                }
        CHECK(pairs > 0);
    }
}

} // namespace schedule_messages_test
