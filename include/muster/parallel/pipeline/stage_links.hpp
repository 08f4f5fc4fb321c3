// What the stages of one replica say to each other: the values of a micro-batch to the next stage, their gradient back
// to the one before. Messages of one kind go in order, so they carry no numbers. Sending copies and returns at once
// unless many messages are unread; the next receive is under way while a stage computes. MPI moves large messages only
// while it is asked to: progress(), called between the ops of both passes, lets them arrive behind the computing. Every
// wait has a name and the communicator's deadline.
//
//   stage 0   --values-->   stage 1   --values-->   stage 2
//             <-gradients-            <-gradients-
#pragma once

#include <muster/comm/communicator.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace muster::parallel {

/// Messages to one rank.
class Outbox {
 public:
  Outbox() = default;  ///< to nobody
  /// depth: messages that may be unread.
  Outbox(comm::Communicator& ranks, int peer, int tag, std::size_t depth, std::string what);
  /// Room for the next message, of the caller until send(); waits while `depth` are unread. Throws Error(comm).
  std::span<float> room(std::int64_t elements);
  void send();
  /// Lets what is under way go on.
  void progress();
  /// Until everything sent is read. Throws Error(comm).
  void finish();
  double waited_s() const { return waited_s_; }
  std::size_t buffer_bytes() const;

 private:
  void wait(std::size_t slot);

  comm::Communicator* ranks_ = nullptr;
  int peer_ = -1, tag_ = 0;
  std::string what_;
  std::vector<std::vector<float>> buffers_;  // grow to the largest message
  std::vector<comm::RequestPtr> requests_;   // of each buffer; null: free
  std::size_t next_ = 0;
  std::int64_t elements_ = 0;
  double waited_s_ = 0;
};

/// Messages from one rank.
class Inbox {
 public:
  Inbox() = default;  ///< from nobody
  Inbox(comm::Communicator& ranks, int peer, int tag, std::string what);
  /// The next message, valid until the next call. following: elements of the one behind it, whose receive is started;
  /// 0: not known. Throws Error(comm).
  std::span<const float> take(std::int64_t elements, std::int64_t following);
  /// Lets what is under way go on; whether the next message is there (false where its receive is not started).
  bool progress();
  double waited_s() const { return waited_s_; }
  std::size_t buffer_bytes() const { return (buffers_[0].size() + buffers_[1].size()) * sizeof(float); }

 private:
  void start(std::int64_t elements);

  comm::Communicator* ranks_ = nullptr;
  int peer_ = -1, tag_ = 0;
  std::string what_;
  std::vector<float> buffers_[2];
  std::size_t next_ = 0;
  comm::RequestPtr request_;  // into buffers_[next_]; null: not started
  double waited_s_ = 0;
};

/// What every stage knows of a step, and all together.
struct StageSums {
  double squared_norm = 0;  ///< of the gradient
  std::int64_t stop_requests = 0, bad_losses = 0;
  std::int64_t rows = 0, loss_units = 0, correct = 0, top_k_correct = 0;
};

class StageLinks {
 public:
  StageLinks() = default;  ///< one stage: the first and the last
  /// Collective. replica: the stages of one replica, rank = stage; outlives this.
  explicit StageLinks(comm::Communicator& replica);

  int stages() const { return stages_; }
  int stage() const { return stage_; }
  bool is_first() const { return stage_ == 0; }
  bool is_last() const { return stage_ + 1 == stages_; }
  /// Whether this stage uses samples: the first their inputs, the last their targets.
  bool reads_samples() const { return is_first() || is_last(); }

  Outbox values_out, gradients_out;
  Inbox values_in, gradients_in;

  /// Lets all messages under way go on; cheap.
  void progress();
  /// At the end of a step: until the neighbours have read everything.
  void finish();
  /// Collective over the stages: their sums, in the order of the stages. Nothing for one stage.
  void add_up(StageSums& sums);
  /// Elements of the largest messages of a stage.
  struct Messages {
    std::int64_t values_out = 0, gradients_out = 0, values_in = 0, gradients_in = 0;
  };
  /// Bytes of the messages' buffers so far, and when all have held their largest message.
  std::size_t buffer_bytes() const;
  std::size_t full_buffer_bytes(const Messages& largest) const;
  /// Waited so far, for messages and sums.
  double waited_s() const;

 private:
  comm::Communicator* replica_ = nullptr;
  int stages_ = 1, stage_ = 0;
  std::vector<StageSums> all_;
  double waited_s_ = 0;
};

}  // namespace muster::parallel
