/* How much memory of each device is in use. Small plain blocks share chunks of
 * 2 MiB, as the real driver packs them; the packing is taken as perfect. */
#include "fake.h"

#include <string.h>

#define GRAIN ((size_t)512)
#define SMALL (PAGE / 2)

static struct {
	size_t handles, small, large; /* bytes */
} used[MAX_DEVICES];

static size_t round_up(size_t n, size_t unit)
{
	return (n + unit - 1) / unit * unit;
}

size_t usage(int device)
{
	return used[device].handles + round_up(used[device].small, PAGE) +
	       used[device].large;
}

static int fits(int device)
{
	return usage(device) <= (size_t)settings.capacity;
}

int usage_take_handle(int device)
{
	used[device].handles += PAGE;
	if (fits(device))
		return 1;
	used[device].handles -= PAGE;
	return 0;
}

void usage_give_handle(int device)
{
	used[device].handles -= PAGE;
}

static size_t *plain_class(int device, size_t *size)
{
	if (*size > SMALL) {
		*size = round_up(*size, PAGE);
		return &used[device].large;
	}
	*size = round_up(*size, GRAIN);
	return &used[device].small;
}

int usage_take_plain(int device, size_t size)
{
	if (size > (size_t)settings.capacity)
		return 0;
	size_t *class = plain_class(device, &size);
	*class += size;
	if (fits(device))
		return 1;
	*class -= size;
	return 0;
}

void usage_give_plain(int device, size_t size)
{
	size_t *class = plain_class(device, &size);
	*class -= size;
}

void usage_reset(void)
{
	memset(used, 0, sizeof used);
}
