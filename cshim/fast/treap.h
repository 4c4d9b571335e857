/* Treaps of gaps (gaps.h), one by place and one by size.
 *
 * Keys are single words, so one implementation serves both. The priority of a node is a hash of its
 * number, so the treaps are balanced on average and the same in every run. */
#ifndef STALLOC_TREAP_H
#define STALLOC_TREAP_H

#include <stdbool.h>
#include <stdint.h>

#define INDEX_PLACE_BITS 33
#define INDEX_NUMBER_BITS 31 /* the rest of a word: a size, or a block's number */
enum { INDEX_BY_PLACE, INDEX_BY_SIZE };

struct index_gap {
	uint64_t key[2]; /* by place: start; by size: size << PLACE_BITS | start */
	uint32_t kid[2][2];
	/* Links of the list: 2n to gap n, 2n + 1 to block n. Of an unused gap, next is the next
	 * unused number. */
	uint32_t prev, next;
};

static inline uint64_t gap_start(const struct index_gap *g) { return g->key[INDEX_BY_PLACE]; }
static inline uint64_t gap_size(const struct index_gap *g) {
	return g->key[INDEX_BY_SIZE] >> INDEX_PLACE_BITS;
}
static inline uint64_t gap_end(const struct index_gap *g) { return gap_start(g) + gap_size(g); }

static inline uint32_t gap_priority(uint32_t n) {
	n *= 2654435761u;
	n ^= n >> 15;
	return n * 2246822519u;
}

/* The child of a node on the path to a key. The asm keeps the compiler from replacing the branch by
 * a conditional move: where a block is freed and requested again the branch is predicted, and the
 * next node is loaded before this one's key is compared. */
static inline uint32_t *gap_below(struct index_gap *node, uint64_t key, int by) {
	if (key < node->key[by]) return &node->kid[by][0];
	__asm__ volatile("");
	return &node->kid[by][1];
}

static inline void gap_insert(struct index_gap *nodes, uint32_t *root, uint32_t n, int by) {
	uint64_t key = nodes[n].key[by];
	uint32_t priority = gap_priority(n), *p = root;
	while (*p != 0 && gap_priority(*p) >= priority) p = gap_below(&nodes[*p], key, by);
	uint32_t rest = *p, *low = &nodes[n].kid[by][0], *high = &nodes[n].kid[by][1];
	*p = n;
	while (rest != 0) {
		struct index_gap *c = &nodes[rest];
		if (c->key[by] < key) {
			*low = rest;
			low = &c->kid[by][1];
			rest = *low;
		} else {
			*high = rest;
			high = &c->kid[by][0];
			rest = *high;
		}
	}
	*low = *high = 0;
}

static inline void gap_remove(struct index_gap *nodes, uint32_t *root, uint32_t n, int by) {
	uint64_t key = nodes[n].key[by];
	uint32_t *p = root;
	while (*p != n) p = gap_below(&nodes[*p], key, by);
	uint32_t low = nodes[n].kid[by][0], high = nodes[n].kid[by][1];
	while (low != 0 && high != 0) {
		if (gap_priority(low) >= gap_priority(high)) {
			*p = low;
			p = &nodes[low].kid[by][1];
			low = *p;
		} else {
			*p = high;
			p = &nodes[high].kid[by][0];
			high = *p;
		}
	}
	*p = low | high;
}

static inline uint32_t gap_at_most(const struct index_gap *nodes, uint32_t root, uint64_t key,
				   int by) {
	uint32_t best = 0;
	while (root != 0) {
		bool fits = nodes[root].key[by] <= key;
		best = fits ? root : best;
		root = nodes[root].kid[by][fits];
	}
	return best;
}

static inline uint32_t gap_at_least(const struct index_gap *nodes, uint32_t root, uint64_t key,
				    int by) {
	uint32_t best = 0;
	while (root != 0) {
		bool fits = nodes[root].key[by] >= key;
		best = fits ? root : best;
		root = nodes[root].kid[by][!fits];
	}
	return best;
}

#endif
