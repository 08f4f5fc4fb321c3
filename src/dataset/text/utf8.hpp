// UTF-8 to code points and back.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace muster::dataset {

/// Throws Error(data) with the byte offset of what is no UTF-8.
std::vector<char32_t> code_points(std::string_view text);
std::string utf8_of(char32_t point);

}  // namespace muster::dataset
