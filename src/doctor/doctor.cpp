// The examination in its order, and what is printed of it.
#include <muster/doctor/doctor.hpp>

#include "doctor/findings.hpp"

#include <muster/base/log.hpp>
#include <muster/base/text.hpp>

#include <algorithm>
#include <map>

namespace muster::doctor {
namespace {

/// "0-3,8"
std::string cpu_list(const std::vector<int>& cpus) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < cpus.size();) {
    std::size_t last = i;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) ++last;
    parts.push_back(last == i ? std::to_string(cpus[i]) : fmt::format("{}-{}", cpus[i], cpus[last]));
    i = last + 1;
  }
  return join(parts, ",");
}

std::string rate(double bytes_per_s) { return fmt::format("{:.2g} GB/s", 1e-9 * bytes_per_s); }

std::vector<RankFacts> gather(comm::Session& session, const std::string& build) {
  std::vector<RankFacts> ranks;
  for (const std::string& text : session.world().all_gather_text(to_text(read_rank_facts(session, build)), "ranks"))
    ranks.push_back(from_text(text));
  return ranks;
}

void show_hosts(const std::vector<RankFacts>& ranks) {
  std::string last;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const RankFacts& facts = ranks[r];
    if (facts.host != last) {
      log::info("host        {}: {} cores, {}, {} of memory, {} of shared memory free", facts.host, facts.cpus_of_host,
                facts.cpu, human_bytes(facts.memory_bytes), human_bytes(facts.shared_free_bytes));
      for (const Interface& i : facts.interfaces)
        log::info("            {} {}/{}{}", i.name, i.address, i.prefix,
                  i.bytes_per_s > 0 ? ", states " + rate(i.bytes_per_s) : "");
    }
    last = facts.host;
    log::info("rank {:>4}   {}, cores {}", r, facts.host, cpu_list(facts.cpus));
  }
}

void show_links(const LinkFacts& links) {
  log::info("copies      {} of memory by every rank at once", rate(links.copy_bytes_per_s));
  const auto show_pair = [](const char* kind, const PairFacts& pair) {
    log::info("messages    {}, ranks {} and {}: a word in {:.3g} us, {}", kind, pair.a, pair.b, 1e6 * pair.word_s,
              rate(pair.bytes_per_s));
  };
  for (const PairFacts& pair : links.within) show_pair("within a node", pair);
  for (const PairFacts& pair : links.between) show_pair("between nodes", pair);
  for (const ReductionFacts& reduction : links.reductions)
    log::info("reduction   {} by {}: {}, {} through a rank", human_bytes(reduction.bytes), reduction.how,
              human_seconds(reduction.seconds), rate(reduction.bytes_per_s));
  for (const std::string& line : links.one_sided) log::info("one-sided   {}", line);
}

void show_directory(const DirectoryFacts& facts) {
  if (!facts.problem.empty()) return log::info("directory   {}: {}", facts.path, facts.problem);
  log::info("directory   {}: writes {:.0f} MB/s, a small file in {}, {}, {} free", facts.path,
            1e-6 * facts.write_bytes_per_s, human_seconds(facts.sync_s), facts.has_locks ? "locks" : "no locks",
            human_bytes(facts.free_bytes));
}

void append(std::vector<Finding>& findings, std::vector<Finding> more) {
  std::ranges::move(more, std::back_inserter(findings));
}

/// Whether a run would fail.
bool show_findings(const std::vector<Finding>& findings) {
  if (findings.empty()) log::info("findings    nothing is wrong");
  for (const Finding& finding : findings) {
    log::info("{}     {}", finding.stops_runs ? "wrong  " : "finding", finding.what);
    if (!finding.mend.empty()) log::info("   mend     {}", finding.mend);
  }
  return std::ranges::any_of(findings, &Finding::stops_runs);
}

}  // namespace

ExitCode examine(comm::Session& session, const Options& options) {
  auto& world = session.world();
  const std::vector<RankFacts> ranks = gather(session, options.build);
  log::info("build       {}", options.build);
  log::info("mpi         {}, started by {}", session.library(), session.launch().launcher);
  for (const std::string& device : options.devices) log::info("device      {}", device);
  show_hosts(ranks);
  std::vector<Finding> findings = check_ranks(ranks);

  const LinkFacts links = measure_links(world);
  show_links(links);
  append(findings, check_links(links, ranks));

  std::int64_t is_bad = 0;
  if (world.rank() == 0) {
    for (const std::string& path : options.directories) {
      const DirectoryFacts facts = measure_directory(path);
      show_directory(facts);
      append(findings, check_directory(facts));
    }
    const SlurmFacts slurm = ask_slurm();
    if (slurm.is_there) log::info("slurm       starts MPI by {}", join(slurm.plugins, ", "));
    append(findings, check_slurm(slurm, world.size()));
    is_bad = show_findings(findings) ? 1 : 0;
  }
  world.all_reduce(std::span(&is_bad, 1), comm::Reduction::max, "the findings");
  return is_bad != 0 ? ExitCode::launch : ExitCode::done;
}

}  // namespace muster::doctor
