// SPDX-License-Identifier: Apache-2.0
// The `chrt -LETTER -p PRIORITY TID` of util-linux, for machines whose busybox has none.
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int count, char **words)
{
	static const char letters[] = "ofrbi";
	static const int policies[] = {SCHED_OTHER, SCHED_FIFO, SCHED_RR, SCHED_BATCH, SCHED_IDLE};
	const char *letter = count == 5 && words[1][0] == '-' && words[1][1] ? strchr(letters, words[1][1]) : NULL;

	if (!letter || strcmp(words[2], "-p"))
		return 2;
	struct sched_param how = {.sched_priority = atoi(words[3])};
	if (sched_setscheduler(atoi(words[4]), policies[letter - letters], &how) == 0)
		return 0;
	perror("chrt");
	return 1;
}
