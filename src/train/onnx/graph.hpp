// An ONNX graph under construction: nodes, constants, and the names of the values between them. The numbers of fields
// are those of onnx.proto (https://github.com/onnx/onnx, IR version 8).
#pragma once

#include <muster/base/protobuf.hpp>
#include <muster/tensor/shape.hpp>

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace muster::train::onnx {

enum class Element : std::int64_t { float32 = 1, int64 = 7 };

/// A named property of a node.
class Attribute {
 public:
  Attribute(const std::string& name, std::int64_t value);
  Attribute(const std::string& name, double value);
  Attribute(const std::string& name, const std::vector<std::int64_t>& values);
  const ProtoMessage& message() const { return message_; }

 private:
  ProtoMessage message_;
};

class Graph {
 public:
  /// Adds a node of one output; returns the output's name. near: for names that readers recognise.
  std::string add(const std::string& near, const std::string& type, const std::vector<std::string>& inputs,
                  const std::vector<Attribute>& attributes = {});
  /// The same for a node of several outputs.
  std::vector<std::string> add_split(const std::string& near, const std::string& input,
                                     const std::vector<std::int64_t>& parts, std::int64_t axis);
  /// A constant; `name` is made unique.
  std::string constant(const std::string& name, const std::vector<std::int64_t>& dims, std::span<const float> values);
  std::string constant(const std::string& name, const std::vector<std::int64_t>& values);  ///< one axis of int64
  std::string number(const std::string& name, float value) { return constant(name, {}, std::span(&value, 1)); }

  /// The whole model. n, the first extent, is free. result: the name of the value that becomes "output".
  std::string model(Element input, const Shape& input_sample, const std::string& result, const Shape& output_sample,
                    std::int64_t opset);

 private:
  std::string unique(const std::string& name);
  std::string add_tensor(const std::string& name, const std::vector<std::int64_t>& dims, Element type,
                         const void* values, std::size_t bytes);
  void add_node(const std::string& name, const std::string& type, const std::vector<std::string>& inputs,
                const std::vector<std::string>& outputs, const std::vector<Attribute>& attributes);

  ProtoMessage graph_;
  std::set<std::string> names_{"input", "output"};
};

}  // namespace muster::train::onnx
