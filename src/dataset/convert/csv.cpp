// CSV: one sample per line, one column of integer labels, the other columns are float32 inputs. A first line that is
// not made of numbers is a header.
#include "dataset/convert/formats.hpp"
#include "dataset/convert/writer.hpp"

#include <muster/base/text.hpp>

#include <charconv>

namespace muster::dataset {
namespace {

bool parse_number(std::string_view text, float& value) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '+')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\r')) text.remove_suffix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
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

}  // namespace

std::string convert_csv(const ConvertOptions& options) {
  if (options.inputs.empty()) fail(ExitCode::usage, "convert csv: expected --input with the .csv files");
  if (!options.targets.empty())
    fail(ExitCode::usage, "convert csv: the labels are a column of the input files; --target has no meaning here");
  std::vector<float> values;
  std::vector<std::int32_t> labels;
  std::size_t columns = 0, label_at = 0;
  for (const std::string& path : options.inputs) {
    const auto content = read_bytes(path);
    const auto lines = split({reinterpret_cast<const char*>(content.data()), content.size()}, '\n');
    std::vector<std::string> header;
    for (std::size_t number = 0; number < lines.size(); ++number) {
      if (lines[number].empty() || lines[number] == "\r") continue;
      const auto cells = split(lines[number], ',');
      float value = 0;
      if (number == 0 && !parse_number(cells[0], value)) {
        header = cells;
        if (!header.back().empty() && header.back().back() == '\r') header.back().pop_back();
      }
      if (columns == 0) columns = cells.size();
      if (cells.size() != columns || columns < 2)
        fail(ExitCode::data, "{}:{}: expected {} columns, found {}", path, number + 1,
             std::max<std::size_t>(columns, 2), cells.size());
      if (labels.empty()) label_at = label_position(options, path, header, columns);
      if (number == 0 && !header.empty()) continue;
      for (std::size_t i = 0; i < columns; ++i) {
        if (!parse_number(cells[i], value))
          fail(ExitCode::data, "{}:{}: column {}: expected a number, found '{}'", path, number + 1, i + 1, cells[i]);
        if (i != label_at) {
          values.push_back(value);
          continue;
        }
        labels.push_back(static_cast<std::int32_t>(value));
        if (static_cast<float>(labels.back()) != value)
          fail(ExitCode::data, "{}:{}: column {}: expected an integer label, found '{}'", path, number + 1, i + 1,
               cells[i]);
      }
    }
  }
  if (labels.empty()) fail(ExitCode::data, "{}: no samples in it", options.inputs[0]);
  Shape shape = options.shape.empty() ? Shape{static_cast<std::int64_t>(columns) - 1} : Shape(options.shape);
  if (shape.elements() != static_cast<std::int64_t>(columns) - 1)
    fail(ExitCode::usage, "convert csv: --shape {} has {} elements, a line has {} inputs", shape.text(),
         shape.elements(), columns - 1);
  ConvertWriter writer(options, static_cast<std::int64_t>(labels.size()), DType::f32, shape, DType::i32, {});
  writer.add_inputs(std::as_bytes(std::span(values)));
  writer.add_targets(std::as_bytes(std::span(labels)));
  return writer.close();
}

}  // namespace muster::dataset
