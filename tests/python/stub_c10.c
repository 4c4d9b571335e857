/* A test double of PyTorch's libc10.so: the one function stalloc looks up there,
 * which here remembers its message instead of throwing. */
#include <stdint.h>
#include <stdio.h>

static char message[256];

const char *stub_message(void) { return message; }

void _ZN3c106detail14torchCheckFailEPKcS2_jS2_(const char *function, const char *file,
					       uint32_t line, const char *text)
{
	snprintf(message, sizeof(message), "%s %s:%u %s", function, file, line, text);
}
