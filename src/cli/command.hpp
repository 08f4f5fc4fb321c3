// What every command of the executable shares: its entry in the table, and the parsing of long GNU flags with one
// message per mistake. Private to cli.
#pragma once

#include <boost/program_options.hpp>

#include <functional>
#include <string>
#include <vector>

namespace muster::cli {

struct Command {
  std::string name;
  std::string arguments;  ///< "CONFIG", for the usage line
  std::string summary;    ///< one line
  std::function<int(const std::vector<std::string>& arguments)> run;
};

/// In the order of `muster --help`.
const std::vector<Command>& commands();

/// Parsed flags. Positional arguments are named by `positionals`; the last one may repeat if it ends in "...".
class Arguments {
 public:
  /// Throws Error(usage) for unknown flags (with a "did you mean"), missing and surplus arguments.
  /// Returns help asked for through is_help(): then nothing else was checked.
  Arguments(const std::string& command, const std::vector<std::string>& positionals,
            const boost::program_options::options_description& flags, const std::vector<std::string>& arguments);

  bool is_help() const { return is_help_; }
  bool has(const std::string& name) const { return values_.count(name) > 0; }
  bool is_given(const std::string& name) const { return has(name) && !values_[name].defaulted(); }
  std::string text(const std::string& name) const { return values_[name].as<std::string>(); }
  std::vector<std::string> list(const std::string& name) const;
  double number(const std::string& name) const { return values_[name].as<double>(); }
  int integer(const std::string& name) const { return values_[name].as<int>(); }

 private:
  boost::program_options::variables_map values_;
  bool is_help_ = false;
};

int run_train(const std::vector<std::string>& arguments);
int run_sweep(const std::vector<std::string>& arguments);
int run_eval(const std::vector<std::string>& arguments);
int run_replay(const std::vector<std::string>& arguments);
int run_predict(const std::vector<std::string>& arguments);
int run_export(const std::vector<std::string>& arguments);
int run_check(const std::vector<std::string>& arguments);
int run_convert(const std::vector<std::string>& arguments);
int run_inspect(const std::vector<std::string>& arguments);
int run_report(const std::vector<std::string>& arguments);
int run_job(const std::vector<std::string>& arguments);
int run_doctor(const std::vector<std::string>& arguments);
int run_info(const std::vector<std::string>& arguments);

/// The text after the command list in `muster --help`: exit codes.
std::string exit_code_help();

}  // namespace muster::cli
