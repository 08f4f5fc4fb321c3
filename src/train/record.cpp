#include "train/record.hpp"

#include <muster/base/error.hpp>
#include <muster/base/file.hpp>
#include <muster/base/text.hpp>

#include <nlohmann/json.hpp>

namespace muster::train {
namespace {

std::filesystem::path record_of(const std::filesystem::path& run_directory) { return run_directory / "record.jsonl"; }

std::string words(const std::vector<std::int64_t>& values) {
  std::vector<std::string> texts;
  for (std::int64_t value : values) texts.push_back(std::to_string(value));
  return join(texts, " ");
}

std::vector<std::int64_t> values(const std::string& words) {
  std::vector<std::int64_t> found;
  for (const std::string& word : split(words, ' ')) found.push_back(std::stoll(word));
  return found;
}

}  // namespace

RecordWriter::RecordWriter(const std::filesystem::path& run_directory, std::int64_t first_version, bool is_resumed,
                           int threads)
    : lines_(record_of(run_directory), is_resumed ? first_version : -1) {
  lines_.write({{"step", first_version}, {"threads", std::int64_t{threads}}});
}

void RecordWriter::write(const parallel::Applied& update) {
  std::vector<std::int64_t> workers;
  for (const auto& share : update.shares) workers.push_back(share.worker);
  MetricsLine line{{"step", update.steps},
                   {"batch", update.batch},
                   {"grains", update.grains},
                   {"workers", words(workers)},
                   {"bases", words(update.bases)}};
  if (update.version != update.steps || update.batches != 1 || update.is_fresh) {
    line.emplace_back("version", update.version);
    line.emplace_back("batches", update.batches);
    line.emplace_back("is_fresh", std::int64_t{update.is_fresh});
  }
  lines_.write(line);
}

Record read_record(const std::filesystem::path& run_directory) {
  const std::filesystem::path path = record_of(run_directory);
  if (!std::filesystem::exists(path))
    fail(ExitCode::usage, "{}: not found; a run is recorded with parallel.record: true", path.string());
  Record record;
  bool has_start = false;
  std::int64_t done = 0;
  int number = 0;
  for (const std::string& line : split(read_file(path), '\n')) {
    ++number;
    const auto object = nlohmann::json::parse(line, nullptr, false);
    if (!object.is_object()) continue;  // the last may be cut off
    const auto step = object.at("step").get<std::int64_t>();
    if (object.contains("threads")) {
      const auto threads = object.at("threads").get<std::int64_t>();
      if (has_start && threads != record.threads)
        fail(ExitCode::usage,
             "{}:{}: the run went on with {} threads per worker after {}; such a run cannot be replayed", path.string(),
             number, threads, record.threads);
      if (!has_start) record.first_step = done = step;
      record.threads = threads;
      has_start = true;
      continue;
    }
    const auto batches = object.value("batches", std::int64_t{1});
    if (!has_start || step != done + batches)
      fail(ExitCode::usage, "{}:{}: expected update {}, found {}; parts of the run were not recorded", path.string(),
           number, done + batches, step);
    done = step;
    record.updates.push_back({step, object.value("version", step), object.at("batch").get<std::int64_t>(), batches,
                              object.value("is_fresh", std::int64_t{0}) == 1, object.at("grains").get<std::int64_t>(),
                              values(object.at("workers").get<std::string>()),
                              values(object.at("bases").get<std::string>())});
  }
  return record;
}

}  // namespace muster::train
