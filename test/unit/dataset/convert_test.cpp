// Converters on files written here byte by byte, read back through the dataset, and their messages.
#include <gtest/gtest.h>

#include <muster/base/error.hpp>
#include <muster/dataset/convert.hpp>
#include <muster/dataset/dataset.hpp>

#include <zlib.h>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace muster::dataset {
namespace {

namespace fs = std::filesystem;

class Convert : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("convert-" + std::to_string(::getpid()));
    fs::create_directories(folder_);
    options_.output = path("out.h5");
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string write(const std::string& name, const std::string& content) const {
    std::ofstream(path(name), std::ios::binary) << content;
    return path(name);
  }
  std::string write_gz(const std::string& name, const std::string& content) const {
    gzFile file = gzopen(path(name).c_str(), "wb");
    gzwrite(file, content.data(), static_cast<unsigned>(content.size()));
    gzclose(file);
    return path(name);
  }
  std::unique_ptr<Dataset> open() const {
    DataOptions data;
    data.train.files = {options_.output};
    data.train.inputs = options_.inputs_name;
    data.train.targets = options_.targets_name;
    return open_train(data, 0);
  }
  std::string error() const {
    try {
      convert(options_);
    } catch (const Error& e) {
      EXPECT_FALSE(fs::exists(options_.output + ".tmp"));
      return e.what();
    }
    return "no error";
  }

  fs::path folder_;
  ConvertOptions options_;
};

std::string bytes(std::initializer_list<int> values) {
  std::string text;
  for (int v : values) text += static_cast<char>(v);
  return text;
}

const std::string idx_images =
    bytes({0, 0, 8, 3, 0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0, 2, 0, 51, 102, 153, 204, 255, 0, 51, 1, 2, 3, 4});
const std::string idx_labels = bytes({0, 0, 8, 1, 0, 0, 0, 3, 7, 0, 9});

TEST_F(Convert, IdxPlainAndCompressedAndEveryLayoutHoldTheSameSamples) {
  for (int deflate : {0, 4}) {
    options_.format = "idx";
    options_.deflate = deflate;
    options_.is_forced = true;
    options_.inputs = {deflate ? write_gz("i.gz", idx_images) : write("i", idx_images)};
    options_.targets = {write("l", idx_labels)};
    convert(options_);
    const auto data = open();
    ASSERT_EQ(data->size(), 3);
    EXPECT_EQ(data->input_shape(), (Shape{1, 2, 2}));
    EXPECT_EQ(data->input_dtype(), DType::u8);
    EXPECT_TRUE(data->has_class_labels());
    EXPECT_NE(data->describe().find(deflate ? "deflate" : "contiguous"), std::string::npos) << data->describe();
    std::uint8_t images[12];
    std::int32_t labels[3];
    const std::int64_t order[] = {2, 0, 1};
    data->read(order, images, labels);
    EXPECT_EQ(std::memcmp(images, bytes({1, 2, 3, 4, 0, 51, 102, 153, 204, 255, 0, 51}).data(), 12), 0);
    EXPECT_EQ((std::vector<std::int32_t>(labels, labels + 3)), (std::vector<std::int32_t>{9, 7, 0}));
    double sum = 0, squares = 0;
    for (int v : {0, 51, 102, 153, 204, 255, 0, 51, 1, 2, 3, 4}) sum += v / 255.0, squares += v / 255.0 * v / 255.0;
    EXPECT_NEAR(data->statistics().mean.at(0), sum / 12, 1e-12);
    EXPECT_NEAR(data->statistics().std.at(0), std::sqrt(squares / 12 - sum * sum / 144), 1e-12);
  }
}

TEST_F(Convert, IdxMessages) {
  options_.format = "idx";
  options_.targets = {write("l", idx_labels)};
  options_.inputs = {write("i", idx_images.substr(0, 20))};
  EXPECT_NE(error().find("its header promises 12 bytes"), std::string::npos) << error();
  options_.inputs = {write("i", "PNG?")};
  EXPECT_NE(error().find("expected an idx file"), std::string::npos) << error();
  options_.inputs = {write("i", idx_images)};
  options_.targets = {write("l", bytes({0, 0, 8, 1, 0, 0, 0, 2, 7, 0}))};
  EXPECT_NE(error().find("one label per sample"), std::string::npos) << error();
  options_.inputs = {path("absent")};
  EXPECT_NE(error().find("No such file"), std::string::npos) << error();
  const std::string cut = write_gz("cut.gz", std::string(100000, 'x'));
  fs::resize_file(cut, 60);
  options_.inputs = {cut};
  EXPECT_NE(error().find("cut.gz"), std::string::npos) << error();
}

TEST_F(Convert, AppendPutsTrainAndTestIntoOneFile) {
  options_.format = "idx";
  options_.inputs = {write("i", idx_images)};
  options_.targets = {write("l", idx_labels)};
  options_.inputs_name = "train/images", options_.targets_name = "train/labels";
  convert(options_);
  EXPECT_NE(error().find("--append"), std::string::npos);
  options_.is_appended = true;
  EXPECT_NE(error().find("one of that name"), std::string::npos) << error();
  options_.inputs_name = "test/images", options_.targets_name = "test/labels";
  convert(options_);
  EXPECT_EQ(open()->size(), 3);
  options_.inputs_name = "train/images", options_.targets_name = "train/labels";
  EXPECT_EQ(open()->size(), 3);
}

TEST_F(Convert, CifarTakesTheFineLabel) {
  std::string record10 = bytes({4}), record100 = bytes({1, 99});
  for (int i = 0; i < 3072; ++i) record10 += static_cast<char>(i % 200), record100 += static_cast<char>(i % 100);
  options_.format = "cifar10";
  options_.inputs = {write("a", record10), write("b", record10 + record10)};
  convert(options_);
  std::vector<std::uint8_t> image(3072);
  std::int32_t label = 0;
  const std::int64_t last[] = {2};
  open()->read(last, image.data(), &label);
  EXPECT_EQ(open()->size(), 3);
  EXPECT_EQ(open()->statistics().mean.size(), 3u);
  EXPECT_EQ(label, 4);
  EXPECT_EQ(image[199], 199);
  options_.format = "cifar100";
  options_.is_forced = true;
  options_.inputs = {write("a", record100)};
  convert(options_);
  const std::int64_t first[] = {0};
  open()->read(first, image.data(), &label);
  EXPECT_EQ(label, 99);
  options_.inputs = {write("a", record100.substr(1))};
  EXPECT_NE(error().find("records of 3074 bytes"), std::string::npos) << error();
}

TEST_F(Convert, CsvWithAndWithoutHeader) {
  options_.format = "csv";
  options_.inputs = {write("a.csv", "x,y,kind\n1.5,-2,0\n3e0,.25,1\n")};
  options_.label_column = "kind";
  convert(options_);
  float values[4];
  std::int32_t labels[2];
  const std::int64_t both[] = {0, 1};
  open()->read(both, values, labels);
  EXPECT_EQ((std::vector<float>(values, values + 4)), (std::vector<float>{1.5f, -2, 3, 0.25f}));
  EXPECT_EQ(labels[1], 1);
  options_.is_forced = true;
  options_.label_column = "first";
  options_.inputs = {write("a.csv", "7,1,2\r\n8,3,4\r\n")};
  convert(options_);
  open()->read(both, values, labels);
  EXPECT_EQ(labels[0], 7);
  EXPECT_EQ(values[3], 4);
  options_.inputs = {write("a.csv", "7,1,2\n8,3\n")};
  EXPECT_NE(error().find("a.csv:2: expected 3 columns, found 2"), std::string::npos) << error();
  options_.inputs = {write("a.csv", "7,1,2\n8,3,four\n")};
  EXPECT_NE(error().find("a.csv:2: column 3: expected a number, finite and within float32, found 'four'"),
            std::string::npos)
      << error();
  options_.inputs = {write("a.csv", "7.5,1,2\n")};
  EXPECT_NE(error().find("integer label"), std::string::npos) << error();
}

std::string npy(const std::string& descr, const std::string& shape, const std::string& data, bool is_fortran = false) {
  std::string header =
      "{'descr': '" + descr + "', 'fortran_order': " + (is_fortran ? "True" : "False") + ", 'shape': " + shape + ", }";
  while ((10 + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  return std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(header.size() % 256) +
         static_cast<char>(header.size() / 256) + header + data;
}

TEST_F(Convert, Npy) {
  const double inputs[] = {0.5, 1.5, 2.5, 3.5};
  const std::int64_t targets[] = {1, 0};
  options_.format = "npy";
  options_.inputs = {write("x.npy", npy("<f8", "(2, 2)", std::string(reinterpret_cast<const char*>(inputs), 32)))};
  options_.targets = {write("y.npy", npy("<i8", "(2,)", std::string(reinterpret_cast<const char*>(targets), 16)))};
  convert(options_);
  float values[4];
  std::int32_t labels[2];
  const std::int64_t both[] = {0, 1};
  open()->read(both, values, labels);
  EXPECT_EQ((std::vector<float>(values, values + 4)), (std::vector<float>{0.5f, 1.5f, 2.5f, 3.5f}));
  EXPECT_EQ(labels[0], 1);
  options_.is_forced = true;
  options_.inputs = {
      write("x.npy", npy("<f8", "(2, 2)", std::string(reinterpret_cast<const char*>(inputs), 32), true))};
  EXPECT_NE(error().find("Fortran"), std::string::npos) << error();
  options_.inputs = {write("x.npy", npy("<f8", "(2, 3)", std::string(reinterpret_cast<const char*>(inputs), 32)))};
  EXPECT_NE(error().find("truncated"), std::string::npos) << error();
}

template <class T>
std::string bytes_of(std::initializer_list<T> values) {
  return {reinterpret_cast<const char*>(values.begin()), values.size() * sizeof(T)};
}

TEST_F(Convert, CsvColumnsMeanTheSameInEveryFile) {
  options_.format = "csv";
  options_.label_column = "kind";
  const std::string first = write("a.csv", "kind,x,y\n3,1,2\n");
  options_.inputs = {first, write("b.csv", "x,kind,y\n1,4,2\n")};
  EXPECT_NE(error().find("b.csv:1: expected the columns of"), std::string::npos) << error();
  EXPECT_NE(error().find("(kind, x, y), found x, kind, y"), std::string::npos) << error();
  options_.inputs = {first, write("b.csv", "kind,x,y\r\n5,7,8\r\n"), write("c.csv", "6,9,10\n")};
  convert(options_);
  float values[6];
  std::int32_t labels[3];
  const std::int64_t all[] = {0, 1, 2};
  open()->read(all, values, labels);
  EXPECT_EQ((std::vector<std::int32_t>(labels, labels + 3)), (std::vector<std::int32_t>{3, 5, 6}));
  EXPECT_EQ((std::vector<float>(values, values + 6)), (std::vector<float>{1, 2, 7, 8, 9, 10}));
}

TEST_F(Convert, CsvLosesNoLineAndTakesNoOddNumber) {
  options_.format = "csv";
  options_.is_forced = true;
  for (const char* text : {"\xef\xbb\xbf"
                           "1,2,3\n4,5,6\n",
                           "\xef\xbb\xbflabel,a,b\n1,2,3\n4,5,6\n", "label,0,1\n1,2,3\n4,5,6"}) {
    options_.inputs = {write("a.csv", text)};
    convert(options_);
    EXPECT_EQ(open()->size(), 2) << text;
  }
  for (const char* cell : {"nan", "inf", "-inf", "1e39", "1.5x", ""}) {
    options_.inputs = {write("a.csv", "1,2\n1," + std::string(cell) + "\n")};
    EXPECT_NE(error().find("a.csv:2: column 2: expected a number"), std::string::npos) << error();
    options_.inputs = {write("a.csv", std::string(cell) + ",2\n1,3\n")};
    EXPECT_NE(error().find("a.csv:1: column 1: expected a number"), std::string::npos) << cell << ": " << error();
  }
  options_.inputs = {write("a.csv", "4294967297,2\n")};
  EXPECT_NE(error().find("expected an integer label, found '4294967297'"), std::string::npos) << error();
  options_.inputs = {write("a.csv", "label,x\n")};
  EXPECT_NE(error().find("no samples"), std::string::npos) << error();
}

TEST_F(Convert, NpyTakesNoNumberThatItCannotHold) {
  options_.format = "npy";
  const std::string good_x = write("gx.npy", npy("<f4", "(2,)", bytes_of<float>({1, 2})));
  const std::string good_y = write("gy.npy", npy("<i8", "(2,)", bytes_of<std::int64_t>({1, 0})));
  const auto message = [&](const std::string& inputs, const std::string& targets) {
    options_.inputs = {inputs}, options_.targets = {targets};
    return error();
  };
  const std::string wide = write("y.npy", npy("<i8", "(2,)", bytes_of<std::int64_t>({1, 4294967297})));
  EXPECT_NE(message(good_x, wide).find("y.npy: element 1: expected a number within"), std::string::npos) << error();
  EXPECT_NE(error().find("found 4294967297"), std::string::npos) << error();
  const std::string large = write("x.npy", npy("<f8", "(2,)", bytes_of<double>({1, 1e300})));
  EXPECT_NE(message(large, good_y).find("x.npy: element 1: "), std::string::npos) << error();
  const std::string odd = write("n.npy", npy("<f4", "(2, 1)", bytes_of<float>({1, std::nanf("")})));
  EXPECT_NE(message(odd, good_y).find("n.npy: sample 1: element 0: expected finite"), std::string::npos) << error();
  EXPECT_NE(message(good_x, odd).find("n.npy: sample 1: element 0: expected finite"), std::string::npos) << error();
  EXPECT_FALSE(fs::exists(options_.output));
}

TEST_F(Convert, NpyHeadersThatAreCutOrOdd) {
  options_.format = "npy";
  options_.targets = {write("y.npy", npy("<i8", "(1,)", bytes_of<std::int64_t>({0})))};
  const std::string whole = npy("<f4", "(1, 2)", bytes_of<float>({1, 2}));
  for (std::size_t length = 0; length + 1 < whole.size() - 8; ++length) {  // every cut, told the truth about its length
    std::string cut = whole.substr(0, length);
    if (length > 10) cut[8] = static_cast<char>(length - 10);
    options_.inputs = {write("x.npy", cut)};
    EXPECT_NE(error().find("x.npy: "), std::string::npos) << length << ": " << error();
  }
  for (const char* shape : {"(99999999999999999999,)", "(9223372036854775807, 4)", "(-1, 2)", "(1, x)", "()", "7"}) {
    options_.inputs = {write("x.npy", npy("<f4", shape, bytes_of<float>({1, 2})))};
    EXPECT_NE(error().find("x.npy: "), std::string::npos) << shape << ": " << error();
  }
  options_.inputs = {write("x.npy", npy("<U1", "(1, 2)", "ab"))};
  EXPECT_NE(error().find("expected numbers of type u1, f4 or f8, found '<U1'"), std::string::npos) << error();
}

TEST_F(Convert, NothingIsNoDataSet) {
  options_.format = "npy";
  options_.inputs = {write("x.npy", npy("<f4", "(0, 2)", ""))};
  options_.targets = {write("y.npy", npy("<i8", "(0,)", ""))};
  EXPECT_NE(error().find("x.npy: expected samples, found none"), std::string::npos) << error();
  options_.inputs = {write("x.npy", npy("<f4", "(1, 0)", ""))};
  options_.targets = {write("y.npy", npy("<i8", "(1,)", bytes_of<std::int64_t>({0})))};
  EXPECT_NE(error().find("x.npy: expected samples with elements, found the shape [0]"), std::string::npos) << error();
  options_.format = "idx";
  std::string axes = bytes({0, 0, 8, 33});
  for (int axis = 0; axis < 33; ++axis) axes += bytes({0, 0, 0, 1});
  options_.inputs = {write("i", axes + "x")};
  options_.targets = {write("l", bytes({0, 0, 8, 1, 0, 0, 0, 1, 7}))};
  EXPECT_NE(error().find("at most 31 axes, found 32"), std::string::npos) << error();
  options_.inputs = {write("i", bytes({0, 0, 8, 3}) + std::string(12, '\xff'))};
  EXPECT_NE(error().find("more elements than can be counted"), std::string::npos) << error();
}

TEST_F(Convert, CifarLabelsAreClasses) {
  options_.format = "cifar10";
  options_.inputs = {write("a", bytes({9}) + std::string(3072, '\0') + bytes({12}) + std::string(3072, '\0'))};
  EXPECT_NE(error().find("record 1: expected a label below 10 (cifar10), found 12"), std::string::npos) << error();
}

TEST_F(Convert, LabelsAreCheckedWithTheirPlace) {
  options_.format = "idx";
  options_.inputs = {write("i", idx_images)};
  options_.targets = {write("l", idx_labels)};
  convert(options_);
  const auto data = open();
  check_labels(*data, 10);
  try {
    check_labels(*data, 9);
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("sample 2 has label 9, expected 0 <= label < 9"), std::string::npos)
        << e.what();
  }
}

TEST_F(Convert, InspectShowsShapesHistogramAndAmplification) {
  options_.format = "idx";
  options_.inputs = {write("i", idx_images)};
  options_.targets = {write("l", idx_labels)};
  options_.deflate = 1;
  convert(options_);
  const std::string text = inspect(options_.output, 100);
  EXPECT_NE(text.find("/images  uint8 [3, 1, 2, 2]"), std::string::npos) << text;
  EXPECT_NE(text.find("random access reads 3 bytes per byte used"), std::string::npos) << text;
  EXPECT_NE(text.find("3 classes:"), std::string::npos) << text;
  EXPECT_NE(text.find("7: 1"), std::string::npos) << text;
}

TEST_F(Convert, SeveralFilesMakeOneSplitAndRangesCut) {
  options_.format = "idx";
  options_.inputs = {write("i", idx_images)};
  options_.targets = {write("l", idx_labels)};
  convert(options_);
  DataOptions data;
  data.train.files = {options_.output, options_.output};
  data.train.range = Range{2, 5};
  const auto joined = open_train(data, 0);
  ASSERT_EQ(joined->size(), 3);
  std::int32_t labels[3];
  const std::int64_t all[] = {0, 1, 2};
  joined->read(all, nullptr, labels);
  EXPECT_EQ((std::vector<std::int32_t>(labels, labels + 3)), (std::vector<std::int32_t>{9, 7, 0}));
}

}  // namespace
}  // namespace muster::dataset
