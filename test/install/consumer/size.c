#include "digits.h"

#include <stdio.h>

int main(void) {
  unsigned sum = 0;
  for (int i = 0; i < digits_net_model_size; ++i)
    sum += digits_net_model[i];
  printf("%d %u\n", digits_net_model_size, sum);
  return sizeof digits_net_model != digits_net_model_size;
}
