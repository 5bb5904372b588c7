"""The lift road: loops -> closed forms -> a TensIR program, proved equal for all inputs and sizes.

source/       reads C, C++ and Python into the typed loop language of `loops`
summarize/    derives what the loops compute, in the typed terms of `terms`: a `Summary`
tensorize/    writes a summary as a TensIR program and the views that feed it: a `Lifted`
conditions/   what must hold for the summary to be right, as SMT obligations; trusts none of the above
"""
