// Segments of a snapshot, from pieces of memory by address.
#ifndef STALLOC_TORCH_SEGMENTS_H
#define STALLOC_TORCH_SEGMENTS_H

#include "books.h"

namespace stalloc {

inline void open(std::vector<caching::SegmentInfo> *out, DeviceIndex device, size_t address,
		 const Owner &owner) {
	out->emplace_back();
	out->back().device = device;
	out->back().address = address;
	out->back().stream = static_cast<cudaStream_t>(owner.stream);
	out->back().is_large = out->back().is_expandable = true;
	out->back().owner_private_pool_id = owner.pool;
}
inline void put(caching::SegmentInfo &s, uint64_t size, uint64_t asked = 0, bool allocated = false,
		bool active = false, Context context = nullptr) {
	s.blocks.emplace_back();
	s.blocks.back().size = size;
	s.blocks.back().requested_size = asked;
	s.blocks.back().allocated = allocated;
	s.blocks.back().active = active;
	s.blocks.back().context_when_allocated = std::move(context);
	s.total_size += size;
	s.requested_size += asked;
	s.allocated_size += allocated ? size : 0;
	s.active_size += active ? size : 0;
}

// What segments consist of, by address: places while history is recorded, otherwise live blocks and
// all of private pools.
inline std::vector<Books::Piece> Books::order(const std::vector<Block> &pieces) const {
	std::vector<Piece> all;
	auto address_of = [](const Block &b) { return reinterpret_cast<size_t>(b.ptr); };
	for (const auto &[address, place] : places.by_address()) {
		auto block = std::lower_bound(
			pieces.begin(), pieces.end(), address,
			[&](const Block &b, size_t at) { return address_of(b) < at; });
		const bool there = !place.left && block != pieces.end() &&
				   block->state == STALLOC_LIVE && address_of(*block) == address;
		all.push_back({address, place.size, place.owner,
			       there ? STALLOC_LIVE : STALLOC_IDLE, there ? &*block : nullptr});
	}
	if (!all.empty()) return all;
	for (const Block &b : pieces)
		all.push_back({address_of(b), static_cast<size_t>(rounded(b.asked)), owner_of(b),
			       b.state, b.state == STALLOC_LIVE ? &b : nullptr});
	return all;
}

// Segments for a snapshot: neighbouring pieces of one owner and the gaps between them; and one
// segment for the rest. A page may be mapped at several addresses, so idle memory has no single
// address; but the sizes of all segments add up to what is reserved, as in native's snapshot.
inline void Books::append_segments(DeviceIndex device, const stalloc_stats &stats,
				   const std::vector<Block> &pieces,
				   std::vector<caching::SegmentInfo> *out) const {
	constexpr uint64_t kPage = 2 << 20;
	const bool has_places = places.bytes() > 0;
	const std::vector<Piece> all = order(pieces);
	uint64_t end = 0, idle = stats.reserved - stats.active,
		 pending = stats.active - stats.allocated;
	for (const Piece &piece : all) {
		uint64_t &sum = piece.state == STALLOC_PENDING ? pending : idle;
		if (piece.state != STALLOC_LIVE) sum -= std::min<uint64_t>(sum, piece.size);
	}
	const size_t first = out->size();
	Owner owner;
	for (const Piece &piece : all) {
		const uint64_t gap = piece.address - end;
		const bool private_pool = piece.owner.pool != MempoolId_t{0, 0};
		if (out->size() == first || owner != piece.owner ||
		    gap > (has_places || private_pool ? 0 : std::min(idle, kPage))) {
			open(out, device, piece.address, owner = piece.owner);
		} else if (gap) {
			put(out->back(), gap);
			idle -= gap;
		}
		auto context = piece.block ? frames.find(reinterpret_cast<void *>(piece.address))
					   : frames.end();
		put(out->back(), piece.size, piece.block ? piece.block->asked : 0, piece.block,
		    piece.state != STALLOC_IDLE,
		    context == frames.end() ? nullptr : context->second);
		end = piece.address + piece.size;
	}
	if (!idle && !pending) return;
	end = std::max<uint64_t>(end, places.top());
	open(out, device, (end + kPage - 1) & ~(kPage - 1), {});
	if (pending)
		put(out->back(), pending, 0, false, true); // freed, still used by another stream
	if (idle) put(out->back(), idle);
}

// Segments for a snapshot while there are trackers: exactly the mappings that they were told of,
// since whoever attaches a tracker registers what a snapshot shows and is told of its end later.
// Live blocks are cut at the ends of handles, and memory mapped at two addresses is in two
// segments.
inline void Books::append_mapped(DeviceIndex device, const std::vector<Block> &pieces,
				 std::vector<caching::SegmentInfo> *out) const {
	mapped.each([&](size_t at, size_t size) {
		open(out, device, at, {});
		out->back().is_expandable = false; // mapped and unmapped whole
		size_t here = at;
		auto ends_by = [](const Block &b, size_t to) {
			return reinterpret_cast<size_t>(b.ptr) +
				       static_cast<size_t>(rounded(b.asked)) <=
			       to;
		};
		for (auto b = std::lower_bound(pieces.begin(), pieces.end(), at, ends_by);
		     b != pieces.end() && here < at + size; ++b) {
			const auto first = reinterpret_cast<size_t>(b->ptr);
			if (first >= at + size) break;
			out->back().owner_private_pool_id = owner_of(*b).pool;
			if (b->state != STALLOC_LIVE) continue;
			if (first > here) put(out->back(), first - here), here = first;
			const size_t part = std::min(first + static_cast<size_t>(rounded(b->asked)),
						     at + size) -
					    here;
			put(out->back(), part,
			    std::clamp(first + b->asked, here, here + part) - here, true, true);
			out->back().stream = static_cast<cudaStream_t>(b->stream);
			here += part;
		}
		if (here < at + size) put(out->back(), at + size - here);
	});
}

} // namespace stalloc
#endif
