#include "train/onnx/graph.hpp"

#include <muster/base/error.hpp>

#include <limits>

namespace muster::train::onnx {
namespace {

namespace field {
constexpr int attribute_name = 1, attribute_float = 2, attribute_int = 3, attribute_ints = 8, attribute_type = 20;
constexpr int node_input = 1, node_output = 2, node_name = 3, node_type = 4, node_attribute = 5;
constexpr int tensor_dims = 1, tensor_type = 2, tensor_name = 8, tensor_raw = 9;
constexpr int graph_node = 1, graph_name = 2, graph_constant = 5, graph_input = 11, graph_output = 12;
constexpr int value_name = 1, value_type = 2, type_tensor = 1, tensor_element = 1, tensor_shape = 2;
constexpr int shape_dim = 1, dim_value = 1, dim_name = 2;
constexpr int model_version = 1, model_producer = 2, model_graph = 7, model_opset = 8, opset_domain = 1,
              opset_version = 2;
}  // namespace field

constexpr std::int64_t type_float = 1, type_int = 2, type_ints = 7;
constexpr std::int64_t ir_version = 8;

ProtoMessage value_of(const std::string& name, Element element, const Shape& sample) {
  ProtoMessage first, shape, tensor, type, value;
  shape.message(field::shape_dim, first.text(field::dim_name, "n"));
  for (const std::int64_t extent : sample) {
    ProtoMessage dim;
    shape.message(field::shape_dim, dim.integer(field::dim_value, extent));
  }
  tensor.integer(field::tensor_element, static_cast<std::int64_t>(element)).message(field::tensor_shape, shape);
  type.message(field::type_tensor, tensor);
  return value.text(field::value_name, name).message(field::value_type, type);
}

}  // namespace

Attribute::Attribute(const std::string& name, std::int64_t value) {
  message_.text(field::attribute_name, name).integer(field::attribute_int, value);
  message_.integer(field::attribute_type, type_int);
}
Attribute::Attribute(const std::string& name, double value) {
  message_.text(field::attribute_name, name).number(field::attribute_float, static_cast<float>(value));
  message_.integer(field::attribute_type, type_float);
}
Attribute::Attribute(const std::string& name, const std::vector<std::int64_t>& values) {
  message_.text(field::attribute_name, name);
  for (const std::int64_t value : values) message_.integer(field::attribute_ints, value);
  message_.integer(field::attribute_type, type_ints);
}

std::string Graph::unique(const std::string& name) {
  std::string candidate = name;
  for (int i = 1; !names_.insert(candidate).second; ++i) candidate = fmt::format("{}_{}", name, i);
  return candidate;
}

void Graph::add_node(const std::string& name, const std::string& type, const std::vector<std::string>& inputs,
                     const std::vector<std::string>& outputs, const std::vector<Attribute>& attributes) {
  ProtoMessage node;
  for (const std::string& input : inputs) node.text(field::node_input, input);
  for (const std::string& output : outputs) node.text(field::node_output, output);
  node.text(field::node_name, name).text(field::node_type, type);
  for (const Attribute& attribute : attributes) node.message(field::node_attribute, attribute.message());
  graph_.message(field::graph_node, node);
}

std::string Graph::add(const std::string& near, const std::string& type, const std::vector<std::string>& inputs,
                       const std::vector<Attribute>& attributes) {
  const std::string output = unique(near + "/" + type);
  add_node(output, type, inputs, {output}, attributes);
  return output;
}

std::vector<std::string> Graph::add_split(const std::string& near, const std::string& input,
                                          const std::vector<std::int64_t>& parts, std::int64_t axis) {
  std::vector<std::string> outputs;
  for (std::size_t i = 0; i < parts.size(); ++i) outputs.push_back(unique(near + "/Split"));
  add_node(outputs.front(), "Split", {input, constant(near + "/parts", parts)}, outputs, {{"axis", axis}});
  return outputs;
}

std::string Graph::add_tensor(const std::string& name, const std::vector<std::int64_t>& dims, Element type,
                              const void* values, std::size_t bytes) {
  const std::string own = unique(name);
  ProtoMessage tensor;
  for (const std::int64_t dim : dims) tensor.integer(field::tensor_dims, dim);
  tensor.integer(field::tensor_type, static_cast<std::int64_t>(type)).text(field::tensor_name, own);
  tensor.text(field::tensor_raw, std::string_view(static_cast<const char*>(values), bytes));
  graph_.message(field::graph_constant, tensor);
  return own;
}

std::string Graph::constant(const std::string& name, const std::vector<std::int64_t>& dims,
                            std::span<const float> values) {
  return add_tensor(name, dims, Element::float32, values.data(), values.size_bytes());
}

std::string Graph::constant(const std::string& name, const std::vector<std::int64_t>& values) {
  return add_tensor(name, {static_cast<std::int64_t>(values.size())}, Element::int64, values.data(),
                    values.size() * sizeof(std::int64_t));
}

std::string Graph::model(Element input, const Shape& input_sample, const std::string& result,
                         const Shape& output_sample, std::int64_t opset) {
  add_node("output", "Identity", {result}, {"output"}, {});
  graph_.text(field::graph_name, "muster");
  graph_.message(field::graph_input, value_of("input", input, input_sample));
  graph_.message(field::graph_output, value_of("output", Element::float32, output_sample));
  ProtoMessage version, model;
  version.text(field::opset_domain, "").integer(field::opset_version, opset);
  model.integer(field::model_version, ir_version).text(field::model_producer, "muster");
  model.message(field::model_graph, graph_).message(field::model_opset, version);
  if (model.bytes().size() > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()))
    fail(ExitCode::usage, "export: an ONNX file holds 2 GiB at most, this network needs {} bytes; use safetensors",
         model.bytes().size());
  return model.bytes();
}

}  // namespace muster::train::onnx
