// Dynamic storage allocation with known lifetimes (NP-hard; what is here are the usual greedy orders, the best one
// wins).
//
//   sweep        in order of birth, best fit among the gaps of what is alive: n log n whatever the lifetimes
//   ordered      by size, by size x lifetime, by lifetime, by birth, by death: each request goes to the smallest gap
//   between the requests placed
//                so far that are alive at some time with it, else on top. Costs the pairs that are alive together, so
//                an order runs only while the sum of these stays within a budget: a lesser one once all fits
//   improvement  while the peak is above the capacity and the input is small: the requests at the peak move to the
//   front of the best order
//
// The search stops at a peak equal to the most bytes alive at one time, which no allocation can beat. Fixed requests
// are placed before all others.
#include "backend/memory/allocate.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <set>

namespace npuc::memory {
namespace {

constexpr int64_t kPairBudget = 20'000'000;
constexpr int64_t kNicerBudget = 2'000'000; // once it fits
constexpr size_t kImproveMaxRequests = 3000;
constexpr int kImproveRounds = 60;

int64_t AlignUp(int64_t v, int64_t align) {
  return (v + align - 1) / align * align;
}

struct Placement {
  std::vector<int64_t> offsets;
  int64_t peak = 0;
};

class Allocator {
public:
  explicit Allocator(const std::vector<Request> &requests) : r_(requests) {
    for (size_t i = 0; i < r_.size(); ++i) {
      if (r_[i].size <= 0)
        continue;
      (r_[i].fixed ? fixed_ : free_).push_back(i);
    }
    // By birth: position of each request and the order itself.
    by_birth_ = free_;
    by_birth_.insert(by_birth_.end(), fixed_.begin(), fixed_.end());
    std::sort(by_birth_.begin(), by_birth_.end(),
              [&](size_t a, size_t b) { return std::pair(r_[a].first, a) < std::pair(r_[b].first, b); });
    births_.reserve(by_birth_.size());
    position_.resize(r_.size());
    for (size_t p = 0; p < by_birth_.size(); ++p) {
      births_.push_back(r_[by_birth_[p]].first);
      position_[by_birth_[p]] = p;
    }
  }

  const std::vector<size_t> &free() const { return free_; }

  bool FixedCollide() {
    std::map<int64_t, size_t> alive; // by offset
    std::vector<std::pair<int64_t, size_t>> deaths;
    std::vector<size_t> order = fixed_;
    std::sort(order.begin(), order.end(),
              [&](size_t a, size_t b) { return std::pair(r_[a].first, a) < std::pair(r_[b].first, b); });
    auto later = std::greater<std::pair<int64_t, size_t>>();
    for (size_t i : order) {
      while (!deaths.empty() && deaths.front().first < r_[i].first) {
        alive.erase(*r_[deaths.front().second].fixed);
        std::pop_heap(deaths.begin(), deaths.end(), later);
        deaths.pop_back();
      }
      const int64_t lo = *r_[i].fixed, hi = lo + r_[i].size;
      if (lo < 0)
        return true;
      auto next = alive.lower_bound(lo);
      if (next != alive.end() && next->first < hi)
        return true;
      if (next != alive.begin()) {
        const size_t before = std::prev(next)->second;
        if (*r_[before].fixed + r_[before].size > lo)
          return true;
      }
      alive[lo] = i;
      deaths.push_back({r_[i].last, i});
      std::push_heap(deaths.begin(), deaths.end(), later);
    }
    return false;
  }

  void LiveBytes(Allocation *out) const {
    std::vector<std::pair<int64_t, int64_t>> events; // time, change; deaths take effect after `last`
    for (size_t i : by_birth_) {
      events.push_back({r_[i].first, r_[i].size});
      events.push_back({r_[i].last + 1, -r_[i].size});
    }
    std::sort(events.begin(), events.end());
    int64_t live = 0;
    for (const auto &[time, change] : events) {
      live += change;
      if (live > out->live_bytes) {
        out->live_bytes = live;
        out->live_time = time;
      }
    }
  }

  // Pairs of requests alive together.
  int64_t Pairs() const {
    std::vector<int64_t> deaths;
    for (size_t i : by_birth_)
      deaths.push_back(r_[i].last);
    std::sort(deaths.begin(), deaths.end());
    int64_t pairs = 0;
    for (size_t p = 0; p < by_birth_.size(); ++p) {
      // Those born before (p of them) that have not died before this one's birth.
      const auto dead = std::lower_bound(deaths.begin(), deaths.end(), births_[p]) - deaths.begin();
      pairs += static_cast<int64_t>(p) - static_cast<int64_t>(dead);
    }
    return pairs;
  }

  Placement Ordered(const std::vector<size_t> &order) {
    Placement out;
    out.offsets.assign(r_.size(), 0);
    Index index(*this);
    for (size_t i : fixed_) {
      out.offsets[i] = *r_[i].fixed;
      out.peak = std::max(out.peak, out.offsets[i] + r_[i].size);
      index.Add(i);
    }
    std::vector<std::pair<int64_t, int64_t>> taken;
    for (size_t i : order) {
      const Request &q = r_[i];
      taken.clear();
      index.ForEachAliveWith(q, [&](size_t j) { taken.push_back({out.offsets[j], out.offsets[j] + r_[j].size}); });
      std::sort(taken.begin(), taken.end());
      int64_t top = 0, best = -1, best_gap = 0;
      for (const auto &[lo, hi] : taken) {
        const int64_t at = AlignUp(top, q.align);
        if (at + q.size <= lo && (best < 0 || lo - top < best_gap)) {
          best = at;
          best_gap = lo - top;
        }
        top = std::max(top, hi);
      }
      if (best < 0)
        best = AlignUp(top, q.align);
      out.offsets[i] = best;
      out.peak = std::max(out.peak, best + q.size);
      index.Add(i);
    }
    return out;
  }

  // In order of birth, best fit among the gaps of what is alive. `by_lifetime`: of requests born together the
  // longest-lived comes first, so that what dies together lies together.
  Placement Sweep(bool by_lifetime) {
    Placement out;
    out.offsets.assign(r_.size(), 0);
    std::vector<size_t> order = free_;
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      const Request &x = r_[a], &y = r_[b];
      if (x.first != y.first)
        return x.first < y.first;
      if (by_lifetime && x.last != y.last)
        return x.last > y.last;
      if (x.size != y.size)
        return x.size > y.size;
      return a < b;
    });
    std::map<int64_t, int64_t> gaps;               // offset -> end; the last one is open
    std::set<std::pair<int64_t, int64_t>> by_size; // length, offset
    constexpr int64_t kOpen = int64_t{1} << 62;
    auto add = [&](int64_t lo, int64_t hi) {
      gaps[lo] = hi;
      by_size.insert({hi - lo, lo});
    };
    auto remove = [&](std::map<int64_t, int64_t>::iterator it) {
      by_size.erase({it->second - it->first, it->first});
      return gaps.erase(it);
    };
    add(0, kOpen);
    Index fixed(*this);
    for (size_t i : fixed_) {
      out.offsets[i] = *r_[i].fixed;
      out.peak = std::max(out.peak, out.offsets[i] + r_[i].size);
      fixed.Add(i);
    }
    using Death = std::pair<int64_t, size_t>;
    std::vector<Death> deaths;
    auto later = std::greater<Death>();
    std::vector<std::pair<int64_t, int64_t>> blocked;
    for (size_t i : order) {
      const Request &q = r_[i];
      while (!deaths.empty() && deaths.front().first < q.first) {
        const size_t dead = deaths.front().second;
        std::pop_heap(deaths.begin(), deaths.end(), later);
        deaths.pop_back();
        int64_t lo = out.offsets[dead], hi = lo + r_[dead].size;
        auto next = gaps.lower_bound(hi);
        if (next != gaps.end() && next->first == hi) {
          hi = next->second;
          next = remove(next);
        }
        if (next != gaps.begin()) {
          auto before = std::prev(next);
          if (before->second == lo) {
            lo = before->first;
            remove(before);
          }
        }
        add(lo, hi);
      }
      blocked.clear();
      if (!fixed_.empty()) {
        fixed.ForEachAliveWith(q, [&](size_t j) { blocked.push_back({out.offsets[j], out.offsets[j] + r_[j].size}); });
        std::sort(blocked.begin(), blocked.end());
      }
      for (auto it = by_size.lower_bound({q.size, 0}); it != by_size.end(); ++it) {
        const int64_t lo = it->second, hi = lo + it->first;
        int64_t at = AlignUp(lo, q.align);
        for (const auto &[b_lo, b_hi] : blocked)
          if (b_lo < at + q.size && at < b_hi)
            at = AlignUp(b_hi, q.align);
        if (at + q.size > hi)
          continue;
        remove(gaps.find(lo));
        if (at > lo)
          add(lo, at);
        if (at + q.size < hi)
          add(at + q.size, hi);
        out.offsets[i] = at;
        break;
      }
      out.peak = std::max(out.peak, out.offsets[i] + q.size);
      deaths.push_back({q.last, i});
      std::push_heap(deaths.begin(), deaths.end(), later);
    }
    return out;
  }

private:
  // The requests added so far, to be asked which are alive at some time with a given one: those alive at its birth
  // (segment tree over the births of all requests) and those born while it lives (ordered set of positions).
  class Index {
  public:
    explicit Index(const Allocator &a) : a_(a) {
      leaves_ = 1;
      while (leaves_ < a_.births_.size() + 1)
        leaves_ *= 2;
      nodes_.resize(2 * leaves_);
    }
    void Add(size_t i) {
      const Request &q = a_.r_[i];
      // Leaf p stands for the moment of birth number p; a request covers the births in [first, last].
      size_t lo = Lower(q.first) + leaves_, hi = Upper(q.last) + leaves_;
      for (; lo < hi; lo /= 2, hi /= 2) {
        if (lo & 1)
          nodes_[lo++].push_back(i);
        if (hi & 1)
          nodes_[--hi].push_back(i);
      }
      born_.insert(a_.position_[i]);
    }
    template <class F> void ForEachAliveWith(const Request &q, F &&fn) const {
      const size_t birth = Lower(q.first);
      for (size_t n = birth + leaves_; n; n /= 2)
        for (size_t j : nodes_[n])
          fn(j);
      // Born at the same time are covered above; the rest of its life:
      for (auto it = born_.lower_bound(Upper(q.first)); it != born_.end() && a_.births_[*it] <= q.last; ++it)
        fn(a_.by_birth_[*it]);
    }

  private:
    size_t Lower(int64_t t) const {
      return std::lower_bound(a_.births_.begin(), a_.births_.end(), t) - a_.births_.begin();
    }
    size_t Upper(int64_t t) const {
      return std::upper_bound(a_.births_.begin(), a_.births_.end(), t) - a_.births_.begin();
    }
    const Allocator &a_;
    size_t leaves_;
    std::vector<std::vector<size_t>> nodes_;
    std::set<size_t> born_;
  };

  const std::vector<Request> &r_;
  std::vector<size_t> fixed_, free_, by_birth_, position_;
  std::vector<int64_t> births_;
};

} // namespace

Allocation Allocate(const std::vector<Request> &requests, int64_t capacity) {
  Allocation out;
  Allocator a(requests);
  a.LiveBytes(&out);
  if (a.FixedCollide())
    return out;
  // Alignment gaps and fixed offsets can keep the peak above it; it only ends the search early.
  const int64_t floor = out.live_bytes;

  Placement best = a.Sweep(false);
  auto take = [&](Placement p) {
    const bool better = p.peak < best.peak;
    if (better)
      best = std::move(p);
    return better;
  };
  if (best.peak > floor)
    take(a.Sweep(true));

  const int64_t pairs = std::max<int64_t>(1, a.Pairs()), total = static_cast<int64_t>(a.free().size());
  int64_t budget = kPairBudget;
  std::vector<size_t> best_order = a.free();
  auto life = [&](size_t i) { return requests[i].last - requests[i].first + 1; };
  const std::function<bool(size_t, size_t)> orders[] = {
      [&](size_t x, size_t y) { // size
        return std::tuple(-requests[x].size, -life(x), x) < std::tuple(-requests[y].size, -life(y), y);
      },
      [&](size_t x, size_t y) { // area
        return std::tuple(-static_cast<double>(requests[x].size) * static_cast<double>(life(x)), x) <
               std::tuple(-static_cast<double>(requests[y].size) * static_cast<double>(life(y)), y);
      },
      [&](size_t x, size_t y) { // lifetime
        return std::tuple(-life(x), -requests[x].size, x) < std::tuple(-life(y), -requests[y].size, y);
      },
      [&](size_t x, size_t y) { // birth
        return std::tuple(requests[x].first, -requests[x].size, x) <
               std::tuple(requests[y].first, -requests[y].size, y);
      },
      [&](size_t x, size_t y) { // death
        return std::tuple(-requests[x].last, -requests[x].size, x) <
               std::tuple(-requests[y].last, -requests[y].size, y);
      },
  };
  for (const auto &less : orders) {
    const int64_t left = best.peak <= capacity ? budget - (kPairBudget - kNicerBudget) : budget;
    if (best.peak <= floor || left < pairs)
      break;
    budget -= pairs;
    std::vector<size_t> order = a.free();
    std::sort(order.begin(), order.end(), less);
    if (take(a.Ordered(order)))
      best_order = std::move(order);
  }

  if (best.peak > capacity && floor <= capacity && requests.size() <= kImproveMaxRequests) {
    std::vector<size_t> order = best_order;
    Placement now = a.Ordered(order);
    for (int round = 0; round < kImproveRounds && best.peak > capacity && budget >= pairs; ++round) {
      budget -= pairs;
      std::stable_partition(order.begin(), order.end(),
                            [&](size_t i) { return now.offsets[i] + requests[i].size == now.peak; });
      // Every few rounds, also a deterministic swap, to leave a cycle.
      if (round % 4 == 3 && total > 1)
        std::swap(order[(round * 7919) % total], order[0]);
      now = a.Ordered(order);
      take(now);
    }
  }

  out.offsets = std::move(best.offsets);
  out.peak = best.peak;
  out.fits = out.peak <= capacity;
  return out;
}

} // namespace npuc::memory
