#include "fatbin.h"

#include <cctype>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace standin {
namespace {

struct Header {
    uint32_t magic;
    uint16_t version, header_size;
    uint64_t size; // of all entries
};

struct Entry {
    uint16_t kind, version;
    uint32_t header_size;
    uint64_t size; // of the data behind the header
    uint32_t packed_size, options_offset;
    uint16_t minor, major; // of the data's format
    uint32_t arch;         // 10 * major + minor compute capability
};

constexpr uint32_t MAGIC = 0xba55ed50;
constexpr uint16_t PTX = 1, MACHINE_CODE = 2;

bool runs(const Entry &entry, int major, int minor) {
    int have = 10 * major + minor, want = int(entry.arch);
    if (entry.kind == MACHINE_CODE)
        return want / 10 == major && want <= have;
    return entry.kind == PTX && want <= have;
}

} // namespace

CUresult check_image(const void *image, int major, int minor) {
    auto *at = static_cast<const unsigned char *>(image);
    Header header;
    memcpy(&header, at, sizeof header);
    if (header.magic != MAGIC || header.version != 1 || header.header_size != sizeof header)
        return CUDA_ERROR_INVALID_IMAGE;
    at += sizeof header;
    for (uint64_t left = header.size; left != 0;) {
        Entry entry;
        if (left < sizeof entry)
            return CUDA_ERROR_INVALID_IMAGE;
        memcpy(&entry, at, sizeof entry);
        if (entry.header_size < sizeof entry || entry.header_size > left || entry.size > left - entry.header_size)
            return CUDA_ERROR_INVALID_IMAGE;
        if (runs(entry, major, minor))
            return CUDA_SUCCESS;
        uint64_t whole = entry.header_size + entry.size;
        at += whole;
        left -= whole;
    }
    return CUDA_ERROR_NO_BINARY_FOR_GPU;
}

std::map<std::string, std::string> kernels_in(const void *image) {
    Header header;
    memcpy(&header, image, sizeof header);
    const std::string_view text(static_cast<const char *>(image) + sizeof header, header.size);
    std::map<std::string, std::string> names;
    auto name_at = [&](size_t begin) {
        size_t end = begin;
        while (end < text.size() && (isalnum((unsigned char)text[end]) || text[end] == '_' || text[end] == '@')) end++;
        return std::string(text.substr(begin, end - begin));
    };
    for (std::string_view mark : {".text.", ".entry "}) {
        for (size_t at = text.find(mark); at != text.npos; at = text.find(mark, at)) {
            const std::string name = name_at(at + mark.size());
            at += mark.size() + name.size();
            const bool other = at < text.size() && text[at] == '=';
            names.emplace(name, other ? name_at(at + 1) : name);
        }
    }
    return names;
}

} // namespace standin
