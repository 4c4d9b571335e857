/* Blocks whose bytes are written and read by work in streams that runs late: if their memory is
 * reused too early, this work finds another block's pattern. */
#include <stdio.h>
#include <string.h>

#include "model.h"

void stays_open(void)
{
	for (int d = 0; d < life.devices; d++)
		for (int l = 1; l < LANES; l++) {
			CHECK((night.lanes[d][l] = road_new(night.w, d)), "no stream");
			if (l < LASTING) stalloc_lasting_stream(d, night.lanes[d][l]);
		}
	for (int r = 1; r < REGIONS; r++) { /* its name is known from now on */
		OK(region_begin(r));
		region_end(r);
	}
}

const char *tag_of(int region)
{
	static const char *const tags[REGIONS] = {NULL, "weights", "cache", "rest"};
	return tags[region];
}

int region_begin(int region)
{
	return region ? stalloc_begin_region(tag_of(region)) : STALLOC_OK;
}

void region_end(int region)
{
	if (region) OK(stalloc_end_region());
}

/* The kernels. */
static void write_it(void *at, size_t size, unsigned long tag)
{
	piece_few(&(struct piece){.at = at, .size = size, .tag = tag}, true);
}

static void read_it(void *at, size_t size, unsigned long tag)
{
	piece_check(&(struct piece){.at = at, .size = size, .tag = tag});
}

static void work(const struct piece *p, int lane, fakecuda_kernel kernel)
{
	void *stream = night.lanes[p->device][lane];
	CHECK(fake(launch)(stream, p->device, kernel, p->at, p->size, p->tag) == 0, "no stream");
}

void work_write(const struct piece *p, int lane)
{
	work(p, lane, write_it);
}

void work_read(const struct piece *p, int lane)
{
	work(p, lane, read_it);
}

void pass_some(void)
{
	fake(pass)(kit_random(&night.w->random), 1 + (long)below(8));
}

bool stay_awake(const struct stay *s)
{
	int device = s->p.device, r = s->region;
	return s->plain || s->shared || (!night.asleep[device][r] && !night.lent[device][r]);
}

/* Whether the work of a lane may use the region, but for that of other lanes' freed blocks. */
static bool lane_uses(int device, int region, int lane)
{
	bool uses = night.own[device][region][lane];
	for (int i = 0; i < STAYS; i++) {
		const struct stay *s = &night.stays[i];
		uses |= s->p.at && s->p.device == device && s->region == region &&
			s->used_on == lane + 1;
	}
	return uses;
}

void stays_touch(int device, int region, void *stream, bool ends)
{
	for (int l = 0; l < LANES; l++)
		if (night.lanes[device][l] != stream && (ends || lane_uses(device, region, l)))
			fake(pass_stream)(night.lanes[device][l]);
	for (int i = 0; i < STAYS; i++) {
		const struct stay *s = &night.stays[i];
		if (!s->p.at || s->p.device != device || s->region != region || s->plain ||
		    s->lost || !stay_awake(s))
			continue;
		CHECK(fake(launch)(stream, device, read_it, s->p.at, s->p.size, s->p.tag) == 0,
		      "no stream");
	}
	if (ends) fake(pass_stream)(stream);
}

size_t stay_size(void)
{
	static const size_t most[] = {4000, 60000, 400000, 3 << 20, 7 << 20, 14 << 20};
	return 513 + below(most[below(chance(6) ? 6 : 4)]);
}

static bool others_in(int device, int region, const void *but)
{
	for (int i = 0; i < STAYS; i++) {
		const struct stay *s = &night.stays[i];
		if (s->p.at && !s->plain && s->p.device == device && s->region == region &&
		    s->p.at != but)
			return true;
	}
	return false;
}

bool stays_in(int device, int region)
{
	return others_in(device, region, NULL);
}

enum answer answer_of(void *at, int device, int region)
{
	const char *why = stalloc_last_error();
	if (at) night.w->served[device]++;
	if (at && night.lent[device][region] && !night.closed[device]) {
		CHECK(!others_in(device, region, at), "region %d of device %d has lent its memory",
		      region, device);
		night.lent[device][region] = false; /* it had none left */
	}
	if (at) return IS_AWAKE;
	night.w->did.refused++;
	if (strstr(why, "sleeps")) return IS_ASLEEP;
	if (strstr(why, "not in use")) {
		CHECK(night.lent[device][region], "region %d of device %d: %s", region, device,
		      why);
		return IS_AWAKE;
	}
	CHECK(strstr(why, "out of memory") || night.fails, "a request on device %d, region %d: %s",
	      device, region, why);
	return IS_FULL;
}

void stay_get(struct stay *s)
{
	int device = (int)below((uint64_t)life.devices), lane = (int)below(LANES);
	stay_get_in(s, device, (int)below(REGIONS), lane);
}

void stay_get_in(struct stay *s, int device, int region, int lane)
{
	struct worker *w = night.w;
	s->p.at = NULL;
	*s = (struct stay){.region = region, .lane = lane, .plain = night.closed[device]};
	s->p = (struct piece){
		.size = stay_size(), .device = device, .stream = night.lanes[device][lane]};
	s->p.tag = ++w->sequence * 64 + 1; /* so few words tell */
	OK(region_begin(s->region));
	s->p.at = stalloc_malloc(s->p.size, device, s->p.stream);
	enum answer is = answer_of(s->p.at, device, s->region);
	region_end(s->region);
	if (is != IS_FULL && !s->plain) dream_is(device, s->region, is == IS_ASLEEP, "a request");
	TELL("get %p, %zu bytes, device %d, region %d, lane %d, tag %#llx", s->p.at, s->p.size,
	     device, s->region, lane, (ull)s->p.tag);
	if (!s->p.at) return;
	piece_claim(&s->p, true);
	night.own[device][s->region][lane] = night.written[device][s->region] = true;
	work_write(&s->p, lane);
}

void stay_use(struct stay *s)
{
	int lane = (int)below(LANES);
	if (!stay_awake(s) || s->lost || s->used_on || lane == s->lane) return;
	if (s->lane < 0)
		kit_pass_all();
	else /* as an event that is waited for */
		fake(pass_stream)(night.lanes[s->p.device][s->lane]);
	stalloc_record_stream(s->p.at, night.lanes[s->p.device][lane]);
	s->used_on = lane + 1;
	TELL("use %p on lane %d", s->p.at, lane);
	work_read(&s->p, lane);
	if (chance(2)) return;
	work_write(&s->p, lane); /* the same */
	night.written[s->p.device][s->region] = true;
}

void stay_give(struct stay *s)
{
	if (!s->p.at) return;
	TELL("give %p", s->p.at);
	if (stay_awake(s) && !s->lost && s->lane >= 0) work_read(&s->p, s->lane);
	if (s->shared) kit_pass_all(); /* its region may sleep, where no work is to be */
	piece_claim(&s->p, false);
	stalloc_free(s->p.at, s->p.size, s->p.device, s->p.stream);
	s->p.at = NULL;
}

void stays_look(void)
{
	kit_pass_all();
	for (int i = 0; i < STAYS; i++) {
		struct stay *s = &night.stays[i];
		if (!s->p.at || !stay_awake(s)) continue;
		if (s->lost)
			piece_few(&s->p, night.written[s->p.device][s->region] = true);
		else
			piece_check(&s->p);
		s->lost = false;
	}
}

/* Destroys a stream that still has blocks; blocks used on it have to be freed before. */
void lane_renew(void)
{
	int device = (int)below((uint64_t)life.devices);
	int lane = LASTING + (int)below(LANES - LASTING);
	for (int i = 0; i < STAYS; i++)
		if (night.stays[i].p.at && night.stays[i].p.device == device &&
		    night.stays[i].used_on == lane + 1)
			return;
	for (int i = 0; i < STAYS; i++) {
		struct stay *s = &night.stays[i];
		if (s->p.at && s->p.device == device && s->lane == lane) s->lane = -1;
	}
	for (int r = 1; r < REGIONS; r++) /* else nothing could come after its work there */
		if (night.own[device][r][lane])
			fake(pass_stream)(night.lanes[device][lane]);
	TELL("renew device %d, lane %d", device, lane);
	kit_stream_end(night.lanes[device][lane]);
	CHECK((night.lanes[device][lane] = road_new(night.w, device)), "no stream");
}

void lanes_close(void)
{
	kit_pass_all();
	for (int d = 0; d < life.devices; d++)
		for (int l = 1; l < LANES; l++) kit_stream_end(night.lanes[d][l]);
}
