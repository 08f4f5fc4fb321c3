// CSV: one sample per line, one column of integer labels, the other columns are float32 inputs. A first line of names
// is a header; files with one must agree on it, so that a column means the same in all.
#include "dataset/convert/formats.hpp"
#include "dataset/convert/writer.hpp"

#include <muster/base/text.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

namespace muster::dataset {
namespace {

/// As double, so that every integer label is exact; within the range of float32.
bool parse_number(std::string_view text, double& value) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '+')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\r')) text.remove_suffix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && !text.empty() &&
         std::abs(value) <= std::numeric_limits<float>::max();  // false for NaN
}

/// A first line of names: its first cell is no number, and either starts like a name or is not the only one.
bool is_header(const std::vector<std::string>& cells) {
  double value = 0;
  const auto is_name = [&](const std::string& cell) { return !parse_number(cell, value); };
  const std::string_view first = cells[0];
  if (!is_name(cells[0]) || first == "nan" || first == "inf" || first == "-inf") return false;
  return (!first.empty() && std::string_view("+-.0123456789 ").find(first[0]) == std::string_view::npos) ||
         std::any_of(cells.begin() + 1, cells.end(), is_name);
}

std::size_t label_position(const ConvertOptions& options, const std::string& path,
                           const std::vector<std::string>& header, std::size_t columns) {
  if (options.label_column == "first") return 0;
  if (options.label_column == "last") return columns - 1;
  for (std::size_t i = 0; i < header.size(); ++i)
    if (header[i] == options.label_column) return i;
  fail(ExitCode::data, "{}: no column '{}'; {}{}", path, options.label_column,
       header.empty() ? "the file has no header" : "columns: " + join(header, ", "),
       did_you_mean(options.label_column, header));
}

struct Table {
  std::vector<float> values;
  std::vector<std::int32_t> labels;
  std::size_t columns = 0, label_at = 0;
  std::vector<std::string> header;  // of the first file that has one
  std::string header_path;
};

void read_header(const ConvertOptions& options, const std::string& path, std::vector<std::string> header,
                 Table& table) {
  if (header.back().ends_with('\r')) header.back().pop_back();
  if (table.header.empty()) table.header = header, table.header_path = path;
  if (header != table.header)
    fail(ExitCode::data, "{}:1: expected the columns of {} ({}), found {}: give all files one order", path,
         table.header_path, join(table.header, ", "), join(header, ", "));
  table.label_at = label_position(options, path, header, header.size());
}

void read_sample(const std::string& path, std::size_t line, const std::vector<std::string>& cells, Table& table) {
  for (std::size_t i = 0; i < cells.size(); ++i) {
    double value = 0;
    if (!parse_number(cells[i], value))
      fail(ExitCode::data, "{}:{}: column {}: expected a number, finite and within float32, found '{}'", path, line,
           i + 1, cells[i]);
    if (i != table.label_at) {
      table.values.push_back(static_cast<float>(value));
      continue;
    }
    if (value != std::floor(value) || std::abs(value) > std::numeric_limits<std::int32_t>::max())
      fail(ExitCode::data, "{}:{}: column {}: expected an integer label, found '{}'", path, line, i + 1, cells[i]);
    table.labels.push_back(static_cast<std::int32_t>(value));
  }
}

void read_table(const ConvertOptions& options, const std::string& path, Table& table) {
  const auto content = read_bytes(path);
  std::string_view text(reinterpret_cast<const char*>(content.data()), content.size());
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);  // a byte order mark
  const auto lines = split(text, '\n');
  const std::size_t samples_before = table.labels.size();
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].empty() || lines[i] == "\r") continue;
    const auto cells = split(lines[i], ',');
    if (table.columns == 0) table.columns = cells.size();
    if (cells.size() != table.columns || table.columns < 2)
      fail(ExitCode::data, "{}:{}: expected {} columns, found {}", path, i + 1, std::max<std::size_t>(table.columns, 2),
           cells.size());
    if (i == 0 && is_header(cells)) {
      read_header(options, path, cells, table);
      continue;
    }
    if (table.labels.empty()) table.label_at = label_position(options, path, table.header, table.columns);
    read_sample(path, i + 1, cells, table);
  }
  if (table.labels.size() == samples_before) fail(ExitCode::data, "{}: no samples in it", path);
}

}  // namespace

std::string convert_csv(const ConvertOptions& options) {
  if (options.inputs.empty()) fail(ExitCode::usage, "convert csv: expected --input with the .csv files");
  if (!options.targets.empty())
    fail(ExitCode::usage, "convert csv: the labels are a column of the input files; --target has no meaning here");
  Table table;
  for (const std::string& path : options.inputs) read_table(options, path, table);
  const auto width = static_cast<std::int64_t>(table.columns) - 1;
  const Shape shape = options.shape.empty() ? Shape{width} : Shape(options.shape);
  if (shape.elements() != width)
    fail(ExitCode::usage, "convert csv: --shape {} has {} elements, a line has {} inputs", shape.text(),
         shape.elements(), width);
  ConvertWriter writer(options, static_cast<std::int64_t>(table.labels.size()), DType::f32, shape, DType::i32, {});
  writer.add_inputs(std::as_bytes(std::span(table.values)));
  writer.add_targets(std::as_bytes(std::span(table.labels)));
  return writer.close();
}

}  // namespace muster::dataset
