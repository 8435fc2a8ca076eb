// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/device/accelerator.hpp>
#include <trireme/device/rehearsal/warp.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <stdexcept>
#include <typeinfo>
#include <utility>
#include <vector>

namespace trireme::rehearsal_runtime {

/// The time at which a rehearsal does work. `late`: only what an event that is asked for needs, and of that the
/// youngest first. `eager`: at once. `shuffled`: anything that may run, by lot. `rushed`: as late, but first what comes
/// behind a wait that is forgotten, up to as many other waits as the seed says.
enum class timing { late, eager, shuffled, rushed };

/// The kind of a piece of work: a node of a graph, or `nothing`, which only joins streams.
enum class work_kind : unsigned char { nothing, kernel, copy, zeros };

/// A piece of work, and what has to be done before it.
struct task {
    std::function<void()> work;
    work_kind kind = work_kind::nothing;
    char const* program = ""; ///< a kernel's, mangled
    std::vector<std::shared_ptr<task>> before;
    std::function<bool()> there = {}; ///< what comes from outside of the process; nothing if nothing does
    bool done = false;
    std::uint64_t seen = 0;       ///< by which search
    std::uint64_t waited = never; ///< behind a wait that is forgotten: for how many others since then
    static constexpr std::uint64_t never = ~std::uint64_t{0};

    bool ready() const noexcept {
        return std::all_of(before.begin(), before.end(), [](auto const& t) { return t->done; }) && (!there || there());
    }
};
using task_ptr = std::shared_ptr<task>;

/// A rehearsal's own work, on the thread where one lives: what it takes memory for, a device would not, and tests that
/// count what a step takes do not count it.
struct own_work {
    own_work() noexcept { ++depth; }
    ~own_work() { --depth; }
    own_work(own_work const&) = delete;
    own_work& operator=(own_work const&) = delete;
    static inline thread_local int depth = 0; ///< how many live
};

/// A watcher is told of each piece of work when it begins and when it ends, in the order in which it is done.
struct watcher {
    virtual ~watcher() = default;
    virtual void begins(task const&) = 0;
    virtual void ends(task const&) = 0;
};

/// All work that has been handed over and not been done. One thread uses it: accelerators are driven by one.
class stage {
public:
    static stage& here() {
        static stage the_only;
        return the_only;
    }

    /// Sets how work is played from now on. Work that is waiting stays.
    void play(timing when, std::uint64_t seed = 0) {
        timing_ = when;
        rushed_ = seed;
        random_.seed(seed);
    }

    /// A number below n, by lot.
    std::size_t lot(std::size_t n) noexcept { return static_cast<std::size_t>(random_() % n); }

    /// The n-th piece of work that is handed over from now on, counted from 0, is refused: as a driver does that has
    /// run out of something, or a launch that cannot be.
    void refuse(std::uint64_t n) noexcept { admitted_ = n; }
    void admit() {
        if (admitted_-- == 0) throw std::runtime_error("the work was refused");
    }

    /// So that a test can see that it would notice a missing wait: the n-th wait that is noted in a capture from now
    /// on, counted from 0, is left out. Waits for what the stream comes after anyway do not count.
    void forget(std::uint64_t n) noexcept {
        forgotten_ = n;
        waits_ = 0;
    }
    void forget_nothing() noexcept { forget(~std::uint64_t{0}); }
    bool heeds_wait() noexcept { return waits_++ != forgotten_; }
    std::uint64_t waits() const noexcept { return waits_; }

    /// Null: nobody watches.
    void watch(watcher* w) noexcept { watcher_ = w; }

    /// Forgets all work, and the error; for tests that have provoked one.
    void clear() noexcept {
        waiting_.clear();
        failure_ = nullptr;
        stalled = false;
        refuse(~std::uint64_t{0});
    }

    void post(task_ptr const& t) {
        waiting_.push_back(t);
        if (timing_ == timing::eager && !stalled && t->ready()) perform(*t);
    }

    /// One poll for `t`: does some work; true if `t` is done. Throws what a piece of work has thrown.
    bool poll(task_ptr const& t) {
        own_work const is_not_counted;
        if (failure_ != nullptr) std::rethrow_exception(failure_);
        if (t == nullptr || t->done) return true;
        if (stalled) return false;
        task_ptr next;
        if (timing_ == timing::shuffled && lot(2) == 0)
            next = any_ready();
        else if (auto const first = rushed(); first != nullptr)
            next = needed_for(first);
        else
            next = needed_for(t);
        if (next == nullptr) return false; // all that is left waits for something from outside
        perform(*next);
        if (failure_ != nullptr) std::rethrow_exception(failure_);
        return t->done;
    }

    bool stalled = false; ///< nothing is done any more: for tests of deadlines

private:
    void perform(task& t) {
        if (watcher_ != nullptr) watcher_->begins(t);
        try {
            if (t.work) t.work();
        } catch (...) {
            failure_ = std::current_exception();
        }
        if (watcher_ != nullptr) watcher_->ends(t);
        t.done = true;
        t.work = nullptr;
        t.before.clear(); // or chains would be freed recursively
        std::erase_if(waiting_, [](auto const& w) { return w->done; });
    }

    /// The oldest task that comes behind a wait that is forgotten, if such go first.
    task_ptr rushed() const {
        if (timing_ == timing::rushed)
            for (auto const& w : waiting_)
                if (w->waited != task::never && w->waited <= rushed_) return w;
        return nullptr;
    }

    task_ptr any_ready() {
        std::vector<task_ptr> ready;
        for (auto const& w : waiting_)
            if (w->ready()) ready.push_back(w);
        return ready.empty() ? nullptr : ready[lot(ready.size())];
    }

    task_ptr needed_for(task_ptr const& goal) {
        ++search_;
        std::vector<task_ptr> needed{goal};
        std::vector<task*> ready;
        goal->seen = search_;
        for (std::size_t i = 0; i < needed.size(); ++i) {
            auto const t = needed[i];
            if (t->ready()) ready.push_back(t.get());
            for (auto const& b : t->before)
                if (!b->done && b->seen != search_) {
                    b->seen = search_;
                    needed.push_back(b);
                }
        }
        if (ready.empty()) return nullptr;
        auto const* const chosen = timing_ == timing::shuffled ? ready[lot(ready.size())] : nullptr;
        auto const may_go = [&](task* t) {
            if (chosen != nullptr) return t == chosen;
            return t->seen == search_ && std::find(ready.begin(), ready.end(), t) != ready.end();
        };
        for (auto w = waiting_.rbegin();; ++w) // from the youngest
            if (may_go(w->get())) return *w;
    }

    timing timing_ = timing::late;
    std::uint64_t rushed_ = 0; ///< the most other waits of tasks that go first
    std::uint64_t waits_ = 0, forgotten_ = ~std::uint64_t{0};
    std::uint64_t admitted_ = ~std::uint64_t{0};
    std::uint64_t search_ = 0;
    std::mt19937_64 random_{0};
    std::vector<task_ptr> waiting_; ///< in the order they came
    std::exception_ptr failure_;
    watcher* watcher_ = nullptr;
};

/// A block program without its type, so that a test with hundreds of them is compiled quickly: its values, what its
/// blocks need, and its threads in a given order.
class any_program {
public:
    template<block_program P>
    explicit any_program(P const& program)
        : values_(sizeof program), threads_(P::threads), shared_(sizeof(typename P::shared)),
          own_(sizeof(typename P::own)), phases_(program.phases()), phase_(run_phase<P>), name_(typeid(P).name()) {
        static_assert(P::threads <= most_threads_of_block && sizeof(typename P::shared) <= most_shared_bytes);
        static_assert(lies_anywhere<P> && lies_anywhere<typename P::shared> && lies_anywhere<typename P::own>);
        std::memcpy(values_.data(), &program, sizeof program);
    }

    /// Runs it on the host: blocks, and within a phase threads, in an order by lot. What is undefined on a GPU begins
    /// as a pattern that shows.
    void perform(std::uint32_t blocks) const {
        auto const by_lot = [](std::vector<std::uint32_t>& order) {
            auto& s = stage::here();
            std::size_t const n = order.size(), turn = s.lot(n), reverse = s.lot(2);
            std::iota(order.begin(), order.end(), 0u);
            std::rotate(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(turn), order.end());
            if (reverse != 0) std::reverse(order.begin(), order.end());
            std::swap(order[s.lot(n)], order[s.lot(n)]);
        };
        std::vector<std::byte> shared(shared_), own(threads_ * own_);
        std::vector<std::uint32_t> block_order(blocks), thread_order(threads_);
        by_lot(block_order);
        for (auto const block : block_order) {
            constexpr std::byte undefined{0xff}; // a NaN, in every type of floating-point number
            std::fill(shared.begin(), shared.end(), undefined);
            std::fill(own.begin(), own.end(), undefined);
            for (int k = 0; k < phases_; ++k) {
                by_lot(thread_order);
                phase_(values_.data(), k, {block, blocks, 0}, thread_order, shared.data(), own.data());
            }
        }
    }

    char const* name() const noexcept { return name_; }

private:
    template<class T>
    static constexpr bool lies_anywhere = alignof(T) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__;

    template<class P>
    static void run_phase(void const* values, int k, block_place at, std::vector<std::uint32_t> const& threads,
                          void* shared, void* own) {
        for (auto const thread : threads) {
            at.thread = thread;
            static_cast<P const*>(values)->phase(k, at, *static_cast<typename P::shared*>(shared),
                                                 static_cast<typename P::own*>(own)[thread]);
        }
    }

    std::vector<std::byte> values_;
    std::uint32_t threads_;
    std::size_t shared_, own_; ///< bytes of a block, of a thread
    int phases_;
    void (*phase_)(void const*, int, block_place, std::vector<std::uint32_t> const&, void*, void*);
    char const* name_;
};

/// Work that streams have noted down instead of doing it.
struct recording {
    std::vector<task_ptr> tasks;
    task_ptr end;
    bool closed = false;
};

class event {
public:
    explicit event(int device) : device_(device) {}
    bool reached() {
        if (in_ != nullptr) throw std::logic_error("an event of a capture was asked for: it never happens");
        return stage::here().poll(at_);
    }

private:
    friend class stream;
    int device_;
    task_ptr at_;
    std::shared_ptr<recording> in_;
    std::uint64_t waited_ = task::never; ///< of what comes behind it
};

class graph {
public:
    graph() = default;
    std::size_t nodes() const noexcept { return noted_ == nullptr ? 0 : noted_->tasks.size(); }

private:
    friend class stream;
    std::shared_ptr<recording> noted_;
    task_ptr last_; ///< the end of the last launch: a graph does not run beside itself
};

/// A stream of the host that plays a GPU's. Mistakes that CUDA reports as errors are std::logic_error.
class stream {
public:
    using event = rehearsal_runtime::event;
    using graph = rehearsal_runtime::graph;
    using warp = rehearsal_runtime::warp;

    explicit stream(int device) : device_(device) {}
    int device() const noexcept { return device_; }

    void copy(void* to, void const* from, std::size_t bytes) {
        own_work const is_not_counted;
        enqueue(work_kind::copy, [=] {
            if (bytes != 0) std::memcpy(to, from, bytes);
        });
    }
    void zero(void* to, std::size_t bytes) {
        own_work const is_not_counted;
        enqueue(work_kind::zeros, [=] {
            if (bytes != 0) std::memset(to, 0, bytes);
        });
    }
    /// Work that begins when something from outside of the process is there, which is polled: a message.
    void when(std::function<bool()> there, std::function<void()> work) {
        own_work const is_not_counted;
        enqueue(work_kind::copy, std::move(work), nullptr, "", std::move(there));
    }
    template<block_program P>
    void launch(P const& program, std::uint32_t blocks) {
        own_work const is_not_counted;
        launch(any_program(program), blocks);
    }

    void record(event& e) {
        own_work const is_not_counted;
        if (e.device_ != device_) throw std::logic_error("a stream recorded an event of another device");
        if (noting() && tail_noted_ == nullptr) enqueue_join();
        e.at_ = noting() ? tail_noted_ : tail_;
        e.in_ = recording_;
        e.waited_ = waited_;
    }
    void wait(event const& e) {
        own_work const is_not_counted;
        if (e.in_ == nullptr) {
            if (noting()) throw std::logic_error("a stream in capture waited for an event from outside");
            if (e.at_ != nullptr && !e.at_->done) enqueue_join(e.at_);
            return;
        }
        if (e.in_->closed) throw std::logic_error("a stream waited for an event of a capture that has ended");
        if (noting() && recording_ != e.in_) throw std::logic_error("two captures cannot be joined by an event");
        if (!noting()) {
            recording_ = e.in_;
            tail_noted_ = nullptr;
        }
        waited_ = std::min(waited_, e.waited_);
        if (comes_after(tail_noted_, e.at_)) return;
        if (tail_noted_ != nullptr && !stage::here().heeds_wait()) {
            waited_ = 0;
            return;
        }
        if (waited_ != task::never) ++waited_;
        enqueue_join(e.at_);
    }

    void begin_capture() {
        own_work const is_not_counted;
        if (noting()) throw std::logic_error("a stream in capture began another");
        recording_ = std::make_shared<recording>();
        tail_noted_ = nullptr;
    }
    graph end_capture() {
        own_work const is_not_counted;
        if (!noting()) throw std::logic_error("a capture was ended that had not been begun");
        std::vector<task_ptr> joined;
        if (tail_noted_ != nullptr) joined.push_back(tail_noted_);
        for (std::size_t i = 0; i < joined.size(); ++i)
            for (auto const& b : std::vector<task_ptr>(joined[i]->before))
                if (std::find(joined.begin(), joined.end(), b) == joined.end()) joined.push_back(b);
        if (joined.size() != recording_->tasks.size())
            throw std::logic_error("a capture ended with work of another stream that was not waited for");
        recording_->closed = true;
        recording_->end = tail_noted_;
        graph g;
        g.noted_ = std::exchange(recording_, nullptr);
        return g;
    }

    void abandon_capture() noexcept {
        if (noting()) recording_->closed = true;
        recording_ = nullptr;
    }

    void launch(any_program program, std::uint32_t blocks) {
        if (blocks == 0) throw std::logic_error("a program was launched with no block");
        auto const* const name = program.name();
        enqueue(work_kind::kernel, [program = std::move(program), blocks] { program.perform(blocks); }, nullptr, name);
    }

    void launch(graph& g) {
        own_work const is_not_counted;
        if (noting()) throw std::logic_error("a graph was launched in a capture");
        if (g.nodes() == 0) return;
        std::vector<task_ptr> copies;
        for (auto const& noted : g.noted_->tasks) {
            auto t = std::make_shared<task>();
            t->work = noted->work;
            t->kind = noted->kind;
            t->program = noted->program;
            t->there = noted->there;
            t->waited = noted->waited;
            for (auto const& b : noted->before) {
                auto const at = std::find(g.noted_->tasks.begin(), g.noted_->tasks.end(), b);
                t->before.push_back(copies[static_cast<std::size_t>(at - g.noted_->tasks.begin())]);
            }
            if (noted->before.empty())
                for (auto const& first : {tail_, g.last_})
                    if (first != nullptr && !first->done) t->before.push_back(first);
            copies.push_back(std::move(t));
        }
        // every noted task is before the last one, so the last one is the end of the launch
        auto const end = std::find(g.noted_->tasks.begin(), g.noted_->tasks.end(), g.noted_->end);
        tail_ = g.last_ = copies[static_cast<std::size_t>(end - g.noted_->tasks.begin())];
        for (auto const& t : copies) stage::here().post(t);
    }

private:
    static bool comes_after(task_ptr const& late, task_ptr const& early) {
        std::vector<task const*> seen;
        if (late != nullptr) seen.push_back(late.get());
        for (std::size_t i = 0; i < seen.size(); ++i) {
            if (seen[i] == early.get()) return true;
            for (auto const& b : seen[i]->before)
                if (std::find(seen.begin(), seen.end(), b.get()) == seen.end()) seen.push_back(b.get());
        }
        return false;
    }

    bool noting() noexcept {
        if (recording_ != nullptr && recording_->closed) recording_ = nullptr;
        if (recording_ == nullptr) waited_ = task::never;
        return recording_ != nullptr;
    }

    void enqueue_join(task_ptr const& after = nullptr) { enqueue(work_kind::nothing, {}, after); }
    void enqueue(work_kind kind, std::function<void()> work, task_ptr const& after = nullptr, char const* program = "",
                 std::function<bool()> there = {}) {
        stage::here().admit();
        auto t = std::make_shared<task>();
        t->work = std::move(work);
        t->kind = kind;
        t->program = program;
        t->there = std::move(there);
        auto& tail = noting() ? tail_noted_ : tail_;
        if (tail != nullptr && !tail->done) t->before.push_back(tail);
        if (after != nullptr) t->before.push_back(after);
        tail = t;
        if (noting()) {
            t->waited = waited_;
            recording_->tasks.push_back(std::move(t));
        } else {
            stage::here().post(t);
        }
    }

    int device_;
    std::uint64_t waited_ = task::never; ///< see task
    task_ptr tail_, tail_noted_;
    std::shared_ptr<recording> recording_;
};

} // namespace trireme::rehearsal_runtime
