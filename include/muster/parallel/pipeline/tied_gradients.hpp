// Parameters that several stages of a pipeline hold: an embedding in the first and a head tied to it in the last. Each
// holder has a copy and the gradient of its own use. After the gradients are summed over the replicas, the holders of
// one replica exchange theirs and add them in the order of the stages: all get the same bits, so the copies stay equal.
#pragma once

#include <muster/base/ids.hpp>
#include <muster/comm/communicator.hpp>

#include <span>
#include <vector>

namespace muster::parallel {

struct TiedParameter {
  Range slice;               ///< of this stage's gradient arena
  std::vector<int> holders;  ///< stages, ascending, this one among them; the slice is equally long on all
};

class TiedGradients {
 public:
  /// replica: the stages of one replica, rank = stage; outlives this. elements: of this stage's arena. params: in an
  /// order that all stages share.
  TiedGradients(comm::Communicator& replica, std::vector<TiedParameter> params, std::int64_t elements);

  /// Of what is kept beside the gradients: a summed arena and what the others send.
  std::size_t bytes() const;
  /// Collective over the holders. summed: over the replicas. Returns the seconds it took. Throws Error(comm).
  double add_up(std::span<const float> summed);
  /// The arena with tied parameters summed over the stages; after add_up().
  std::span<const float> summed() const { return summed_; }
  /// What this stage counts in sums over the stages: all but what an earlier one holds too.
  const std::vector<Range>& counted() const { return counted_; }

 private:
  comm::Communicator& replica_;
  std::vector<TiedParameter> params_;
  std::vector<Range> counted_;
  std::vector<float> summed_;
  std::vector<std::vector<float>> received_;  // per parameter and other holder
  std::vector<int> peers_;                    // of each request of an exchange: a receive and a send in turn
  std::vector<comm::RequestPtr> requests_;
};

}  // namespace muster::parallel
