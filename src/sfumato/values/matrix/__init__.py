"""The matrices that values are drawn with: what each must answer, and how it is rounded to the integers sampled."""
