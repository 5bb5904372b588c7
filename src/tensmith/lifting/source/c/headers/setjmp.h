#pragma once
typedef long jmp_buf[8];
int setjmp(jmp_buf place);
void longjmp(jmp_buf place, int value);
