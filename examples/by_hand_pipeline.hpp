// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

// Queues, orders and threads of by_hand_pipeline.cpp, which do not depend on its network.

// [by_hand_queue]
/// A queue from one thread to another with room for some messages. After `close` it gives and takes none.
class bounded_queue {
public:
    explicit bounded_queue(std::size_t room) : room_(room) {}

    void put(std::vector<float> message) {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return closed_ || messages_.size() < room_; });
        if (closed_) throw std::runtime_error("the other stage has failed");
        messages_.push_back(std::move(message));
        changed_.notify_all();
    }
    std::vector<float> take() {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return closed_ || !messages_.empty(); });
        if (closed_) throw std::runtime_error("the other stage has failed");
        auto message = std::move(messages_.front());
        messages_.pop_front();
        changed_.notify_all();
        return message;
    }
    void close() {
        std::scoped_lock const lock(mutex_);
        closed_ = true;
        changed_.notify_all();
    }

private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<std::vector<float>> messages_;
    std::size_t room_;
    bool closed_ = false;
};
// [/by_hand_queue]

// [by_hand_stages]
struct two_queues {
    bounded_queue values{1}, gradients{1}; // to the second stage, and back

    void close() {
        values.close();
        gradients.close();
    }
};

/// The order of the first stage in a step: one micro-batch ahead, then one forward and one back in turn.
void first_stage(two_queues& to, std::size_t micro_batches, auto const& forward, auto const& backward) {
    for (std::size_t m = 0; m <= micro_batches; ++m) {
        if (m < micro_batches) to.values.put(forward(m));
        if (m > 0) backward(m - 1, to.gradients.take());
    }
}
/// The order of the second stage: each micro-batch goes back as soon as it has come.
void second_stage(two_queues& from, std::size_t micro_batches, auto const& forward_and_backward) {
    for (std::size_t m = 0; m < micro_batches; ++m) from.gradients.put(forward_and_backward(m, from.values.take()));
}
// [/by_hand_stages]

// [by_hand_threads]
/// A thread for each stage. The first error of either closes the queues, which ends the other one, and is thrown.
void on_two_threads(two_queues& queues, auto const& first, auto const& second) {
    std::exception_ptr error;
    std::once_flag failed;
    auto const guarded = [&](auto const& stage) {
        try {
            stage();
        } catch (...) {
            std::call_once(failed, [&] { error = std::current_exception(); });
            queues.close();
        }
    };
    std::thread other([&] { guarded(second); });
    guarded(first);
    other.join();
    if (error) std::rethrow_exception(error);
}
// [/by_hand_threads]
