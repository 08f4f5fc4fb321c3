#include <muster/train/events.hpp>

#include <muster/base/error.hpp>
#include <muster/base/protobuf.hpp>

#include <fmt/format.h>
#include <boost/crc.hpp>

#include <fcntl.h>
#include <unistd.h>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>

namespace muster::train {
namespace {

static_assert(std::endian::native == std::endian::little, "values are written as they lie in memory");

template <class T>
void append_raw(std::string& to, T value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof value);
}

/// CRC-32C (Castagnoli), rotated and shifted so that the CRC of data that holds CRCs stays a good one.
std::uint32_t masked_crc(const std::string& bytes) {
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> sum;
  sum.process_bytes(bytes.data(), bytes.size());
  const std::uint32_t crc = sum.checksum();
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8U;
}

// Numbers of the fields in event.proto and summary.proto.
constexpr int event_time = 1, event_step = 2, event_version = 3, event_summary = 5, event_session = 7;
constexpr int session_status = 1, summary_value = 1, value_tag = 1, value_number = 2;
constexpr std::int64_t session_start = 1;

double wall_time_s() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

ProtoMessage event_at(std::int64_t step) {
  ProtoMessage event;
  event.number(event_time, wall_time_s()).integer(event_step, step);
  return event;
}

}  // namespace

std::string framed(const std::string& bytes) {
  std::string length;
  append_raw(length, static_cast<std::uint64_t>(bytes.size()));
  std::string record = length;
  append_raw(record, masked_crc(length));
  record += bytes;
  append_raw(record, masked_crc(bytes));
  return record;
}

EventWriter::EventWriter(const std::filesystem::path& directory, std::int64_t resume_step) {
  const auto seconds = static_cast<std::int64_t>(wall_time_s());
  for (int n = 0; descriptor_ < 0; ++n) {  // a run may start twice within a second
    name_ = (directory / fmt::format("events.out.tfevents.{}.muster.{}", seconds, n)).string();
    descriptor_ = ::open(name_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644);
    if (descriptor_ < 0 && errno != EEXIST)
      fail(ExitCode::checkpoint, "cannot open {}: {}", name_, std::strerror(errno));
  }
  append(event_at(0).text(event_version, "brain.Event:2").bytes());
  if (resume_step < 0) return;
  ProtoMessage session;
  session.integer(session_status, session_start);
  append(event_at(resume_step + 1).message(event_session, session).bytes());
}

EventWriter::~EventWriter() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void EventWriter::write(std::int64_t step, const Scalars& scalars) {
  if (descriptor_ < 0 || scalars.empty()) return;
  ProtoMessage summary;
  for (const auto& [tag, number] : scalars) {
    ProtoMessage value;
    value.text(value_tag, tag).number(value_number, static_cast<float>(number));
    summary.message(summary_value, value);
  }
  append(event_at(step).message(event_summary, summary).bytes());
}

void EventWriter::append(const std::string& event) {
  const std::string record = framed(event);
  ssize_t written = 0;
  do {
    written = ::write(descriptor_, record.data(), record.size());
  } while (written < 0 && errno == EINTR);
  if (written != static_cast<ssize_t>(record.size()))
    fail(ExitCode::checkpoint, "cannot append to {}: {}; free disk space", name_,
         written < 0 ? std::strerror(errno) : "the disk is full");
}

}  // namespace muster::train
