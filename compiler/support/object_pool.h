// Objects that are dear to make, lent to one thread at a time.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

namespace npuc {

template <class T> class ObjectPool {
public:
  // One that was given back, or what `make` returns (a unique_ptr), made outside of the lock.
  template <class Make> std::unique_ptr<T> Take(Make make) {
    {
      std::lock_guard lock(mutex_);
      if (!idle_.empty()) {
        std::unique_ptr<T> object = std::move(idle_.back());
        idle_.pop_back();
        return object;
      }
    }
    return make();
  }
  void Give(std::unique_ptr<T> object) {
    std::lock_guard lock(mutex_);
    idle_.push_back(std::move(object));
  }
  // Those that nobody has; for when the threads are done.
  const std::vector<std::unique_ptr<T>> &idle() const { return idle_; }

private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<T>> idle_;
};

} // namespace npuc
