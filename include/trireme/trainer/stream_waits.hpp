// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/deadline.hpp>
#include <trireme/core/errors.hpp>
#include <trireme/core/left_behind.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/device/accelerator.hpp>
#include <trireme/device/host/floats.hpp>
#include <trireme/group/late.hpp>
#include <trireme/trainer/process_outcome.hpp>
#include <trireme/trainer/process_table.hpp>
#include <trireme/trainer/process_work.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace trireme::detail {

/// The executor of a process's accelerators, and the host's waits for them, each of which ends: with what it waits for,
/// or with an error that names a device.
template<class Executor, accelerator Device>
class stream_waits {
public:
    bool stopped() const noexcept { return stopped_; }

    /// Finds out in all processes whether each is well (`failed` is null), and has read these values; all of them call
    /// it. Throws why another process is not, as a device_error, or a mismatch_error for different values; a process
    /// that is not well itself returns. Training can go on.
    TRIREME_COLD void agree(std::exception_ptr const& failed,
                            std::span<std::span<std::byte const> const> values) const {
        if (executor_->transport.processes() == 1) return;
        auto const mine = process_outcome::of(executor_->transport.here().first, failed, values);
        std::vector<process_outcome> all;
        auto* const self = const_cast<stream_waits*>(this);
        self->guarded([&] {
            self->compare({.is = process_work::file, .steps = steps_}); // none of them does anything else
            self->tell_all(all, mine, "comparing what the processes have read");
        });
        require_same_outcome(all, mine, "process");
    }

protected:
    using rank_type = typename Executor::rank_type;
    using event = typename Device::event;

    stream_waits(std::unique_ptr<Executor> e, std::chrono::duration<double> deadline)
        : executor_(std::move(e)), deadline_(deadline) {}
    stream_waits(stream_waits const&) = delete;
    stream_waits& operator=(stream_waits const&) = delete;
    /// Memory may be freed when nothing is under way any more; else it is left behind, for freeing it would wait for a
    /// device that does not answer.
    ~stream_waits() {
        if (executor_ != nullptr && !idle()) leave_behind(std::move(executor_));
    }

    /// Runs `f` in the default floating-point environment, in which the host computes the numbers of a step. Exceptions
    /// of it stop the trainer, and reach the caller with the device's name.
    template<class F>
    auto guarded(F&& f) -> decltype(f()) {
        try {
            return with_default_floats(f);
        } catch (usage_error const&) { // of what the caller asked for, unless it comes out of a step
            if (steps_ == 0) throw;
            fail();
        } catch (deadline_error const&) {
            stalled_ = true;
            fail();
        } catch (...) {
            fail();
        }
    }

    void wait_for(rank_type& r, event& e, char const* what) {
        executor_->at_rank = r.number;
        auto const limit = deadline::in(deadline_);
        while (!await(
            e, deadline::in(std::min<std::chrono::duration<double>>(limit.left(), std::chrono::milliseconds(20))))) {
            executor_->transport.check();
            if (limit.passed()) late(r, what);
        }
    }

    void wait_for_all(char const* what) {
        for (auto& r : executor_->ranks) r->compute.record(r->used[0]);
        for (auto& r : executor_->ranks) wait_for(*r, r->used[0], what);
    }

    /// Throws mismatch_error unless all processes begin the same work. All of them call it.
    TRIREME_COLD void compare(process_work const& mine) {
        tell_all(works_, mine, "comparing what the processes begin");
        require_same_work(works_);
    }

    std::unique_ptr<Executor> executor_;
    std::chrono::duration<double> deadline_;
    std::uint64_t steps_ = 0; ///< of the training

private:
    /// Gives all processes what each of them says: all[k] is that of the k-th.
    template<class Entry>
    void tell_all(std::vector<Entry>& all, Entry const& mine, char const* what) {
        auto const own = static_cast<std::size_t>(executor_->transport.here().first) / executor_->ranks.size();
        share_table(all, executor_->transport.processes(), own, mine,
                    [&](std::span<std::byte> bytes) { executor_->share_with_all(bytes, [&] { wait_for_all(what); }); });
    }
    bool idle() const noexcept {
        bool all = !stalled_;
        for (auto& r : executor_->ranks)
            for (auto* const s : {&r->copies, &r->compute, &r->beside, &r->exchange}) try {
                    event done(s->device());
                    s->record(done);
                    all = all && await(done, deadline::in(deadline_));
                } catch (...) { // a device that has failed has nothing to do any more
                }
        return all;
    }

    [[noreturn]] TRIREME_COLD void late(rank_type& r, char const* what) {
        executor_->transport.abandon();
        int const rank = r.number;
        auto const name = "device " + std::to_string(rank) + " (" + Device::name + " " +
                          std::to_string(executor_->transport.device_of(rank - executor_->transport.here().first)) +
                          ")";
        std::string rest = std::string(what) + ", training step " + std::to_string(steps_);
        if (executor_->transport.here().count != executor_->layout.devices())
            rest += "; it may wait for a device of another process: look whether these still run";
        throw deadline_error(rank, late_text(name, "finish", deadline_, rest));
    }
    [[noreturn]] TRIREME_COLD void fail() {
        stopped_ = true;
        throw_of_rank(executor_->at_rank, std::current_exception());
    }

    std::vector<process_work> works_; ///< of all processes
    bool stopped_ = false;
    bool stalled_ = false;
};

} // namespace trireme::detail
