// SPDX-License-Identifier: Apache-2.0
#include "driver/quantize_page.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <map>
#include <vector>

#include "base/text.h"
#include "driver/terminal.h"

namespace weft::driver {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view head =
    "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>weft quantize</title><style>"
    "body{margin:24px auto;max-width:1100px;font:14px/1.5 system-ui,sans-serif;color:#1b1f24}"
    "table{border-collapse:collapse;width:100%}th,td{text-align:right;padding:3px 8px;border-bottom:1px solid #d5d9e0}"
    ".text{text-align:left}rect{fill:#2563eb}.float{color:#667}</style>";

std::string escaped(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '<') out += "&lt;";
    else if (c == '&') out += "&amp;";
    else out += c;
  }
  return out;
}

/// Returns the SVG of a bar chart. Each bar is `width` pixels wide; the greatest bar is 24 pixels high.
std::string bars(const std::vector<double>& heights, int width) {
  double most = std::max(1e-300, std::ranges::max(heights));
  std::string svg = cat("<svg width=\"", width * static_cast<int>(heights.size()), "\" height=\"24\">");
  for (size_t i = 0; i < heights.size(); ++i) {
    double height = std::round(heights[i] / most * 240) / 10;
    svg += cat("<rect x=\"", static_cast<int>(i) * width, "\" y=\"", 24 - height, "\" width=\"", std::max(width - 1, 1),
               "\" height=\"", height, "\"/>");
  }
  return svg + "</svg>";
}

/// Draws the logarithms of the counts, because the small counts of the tails matter for the range.
std::string histogram(const Json& layer) {
  if (!layer.contains("histogram")) return "";
  std::vector<double> heights;
  for (const Json& count : layer["histogram"]["counts"]) heights.push_back(std::log1p(count.get<double>()));
  return bars(heights, 3);
}

std::string figure(const Json& layer, const char* key) {
  return layer.contains(key) && layer[key].is_number() ? show_number(layer[key].get<double>()) : "";
}

std::string share(const Json& layer) {
  if (!layer.contains("share_of_loss")) return "";
  double part = layer["share_of_loss"].get<double>();
  return cat("<svg width=\"100\" height=\"10\"><rect width=\"", std::round(part * 1000) / 10,
             "\" height=\"10\"/></svg> ", show_number(part * 100), " %");
}

std::string range(const Json& layer) {
  if (!layer.contains("input")) return "";
  const Json& ends = layer["input"]["range"];
  return cat(show_number(ends[0].get<double>()), " to ", show_number(ends[1].get<double>()));
}

std::string layer_row(const Json& layer) {
  bool is_float = layer["becomes"] == "float";
  std::string why = layer.contains("why") ? cat(": ", escaped(layer["why"].get<std::string>())) : "";
  return cat("<tr", is_float ? " class=\"float\"" : "", "><td class=\"text\">",
             escaped(layer["node"].get<std::string>()), "</td><td class=\"text\">",
             escaped(layer["op"].get<std::string>()), "</td><td class=\"text\">", layer["becomes"].get<std::string>(),
             why, "</td><td>", figure(layer, "weight_db"), "</td><td>", figure(layer, "input_db"), "</td><td>",
             share(layer), "</td><td>", range(layer), "</td><td>", histogram(layer), "</td></tr>\n");
}

std::string search(const Json& report) {
  if (report["evaluations"].size() < 2) return "";
  std::string text = "<h2>What the search tried</h2><table><tr><th>layers in float<th>loss</tr>";
  std::vector<double> losses;
  for (const Json& tried : report["evaluations"]) {
    losses.push_back(std::max(tried["loss"].get<double>(), 0.0));
    text += cat("<tr><td>", tried["floats"].get<size_t>(), "<td>", show_number(losses.back() * 100), " %</tr>");
  }
  return text + "</table>" + bars(losses, 24);
}

}  // namespace

std::string quantize_page(const Json& report, const std::string& model) {
  std::string text =
      cat(head, "<h1>", escaped(model), " in ", report["to"].get<std::string>(), "</h1><p>",
          report["quantised"].get<size_t>(), " layers quantised, ", report["floats"].get<size_t>(), " in float.");
  if (report["loss"].is_number()) text += cat(" Loss: ", show_number(report["loss"].get<double>() * 100), " %.");
  text += cat(" Ranges by ", report["method"].get<std::string>(), ", weights by ", report["weights"].get<std::string>(),
              ".</p><p class=\"float\">dB: the power of a value over that of its ",
              "rounding error. Bars at the right: how often values of each size occur, as a logarithm.");
  text +=
      "</p><table><tr><th class=\"text\">layer<th class=\"text\">operator<th class=\"text\">becomes<th>weights, dB"
      "<th>input, dB<th>share of the loss<th>range of the input<th>how it is spread</tr>\n";
  for (const Json& layer : report["layers"]) text += layer_row(layer);
  return text + "</table>" + search(report) + "</html>\n";
}

std::string calibration_table(const Json& report, const std::string& file) {
  std::map<std::string, std::pair<double, double>> ranges;
  for (const Json& layer : report["layers"]) {
    if (!layer.contains("input")) continue;
    const Json& ends = layer["input"]["range"];
    ranges[layer["input"]["name"].get<std::string>()] = {ends[0].get<double>(), ends[1].get<double>()};
  }
  if (file.ends_with(".json")) {
    Json table = Json::object();
    for (const auto& [name, ends] : ranges) table[name] = {ends.first, ends.second};
    return table.dump(1) + "\n";
  }
  std::string text = "TRT-8501-EntropyCalibration2\n";
  for (const auto& [name, ends] : ranges) {
    char digits[16];
    auto scale = static_cast<float>(std::max(-ends.first, ends.second) / 127);
    auto end = std::to_chars(digits, digits + sizeof digits, std::bit_cast<uint32_t>(scale), 16).ptr;
    text += cat(name, ": ", std::string_view(digits, end), "\n");
  }
  return text;
}

}  // namespace weft::driver
