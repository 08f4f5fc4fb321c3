// Which tensors of a program may share one piece of memory, before addresses are given out. A storage holds values (an
// activation, a gradient) whose lifetimes are known; values join a storage when writing them there destroys nothing
// that is still to be read.
#pragma once

#include <muster/model/memory_plan.hpp>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace muster::model {

class StoragePlan {
 public:
  struct Value {
    int first;
    int last;
  };

  /// A storage of its own for a value that lives from `first` to `last`; returns its id.
  int add(std::size_t bytes, int first, int last) {
    storages_.push_back({bytes, {{first, last}}, {}});
    return static_cast<int>(storages_.size()) - 1;
  }
  /// Whether all values in `storage` are dead after `time`, so that an op running then may write over them.
  bool is_free_after(int storage, int time) const {
    const auto& values = at(storage).values;
    return std::all_of(values.begin(), values.end(), [&](const Value& v) { return v.last <= time; });
  }
  void join(int storage, int first, int last) { at(storage).values.push_back({first, last}); }
  /// Joins a value that equals what the storage holds and is added to at the times `writes`, if nobody is harmed: no
  /// other value there is read after such a write, and no write to another one comes before this value's last reading.
  bool join_equal(int storage, int first, int last, const std::vector<int>& writes) {
    Storage& s = at(storage);
    const bool harms_others =
        std::any_of(writes.begin(), writes.end(), [&](int w) { return !is_free_after(storage, w); });
    const bool is_harmed = std::any_of(s.writes.begin(), s.writes.end(), [&](int w) { return w > first && w < last; });
    if (harms_others || is_harmed) return false;
    s.values.push_back({first, last});
    s.writes.insert(s.writes.end(), writes.begin(), writes.end());
    return true;
  }
  std::size_t bytes(int storage) const { return at(storage).bytes; }

  MemoryPlan place() const {
    std::vector<Lifetime> lifetimes;
    for (const Storage& s : storages_) {
      Lifetime life{s.bytes, s.values[0].first, s.values[0].last};
      for (const Value& v : s.values)
        life.first = std::min(life.first, v.first), life.last = std::max(life.last, v.last);
      lifetimes.push_back(life);
    }
    return plan_memory(lifetimes);
  }

 private:
  struct Storage {
    std::size_t bytes;
    std::vector<Value> values;
    std::vector<int> writes;  // when values are added to after they were first written
  };
  Storage& at(int storage) { return storages_[static_cast<std::size_t>(storage)]; }
  const Storage& at(int storage) const { return storages_[static_cast<std::size_t>(storage)]; }
  std::vector<Storage> storages_;
};

}  // namespace muster::model
